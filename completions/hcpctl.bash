# bash completion for hcpctl(1). What may stand where, hcpctl itself says: see `hcpctl complete --help`.

_hcpctl() {
	local line current=${COMP_WORDS[COMP_CWORD]} program=${COMP_WORDS[0]/#\~/$HOME}
	COMPREPLY=()
	while IFS= read -r line; do
		if [[ $line == :files ]]; then
			[[ $current != = ]] || current=
			compopt -o filenames 2>/dev/null
			while IFS= read -r line; do
				COMPREPLY+=("$line")
			done < <(compgen -f -- "$current")
		else
			COMPREPLY+=("${line%%$'\t'*}")
		fi
	done < <("$program" complete line "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _hcpctl hcpctl
