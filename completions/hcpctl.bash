# SPDX-License-Identifier: MIT
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
			# Quoted: names of artifacts are made up by workers, and what stands on the line is executed.
			line=${line%%$'\t'*}
			[[ $line != *[!A-Za-z0-9_@%+=:,./-]* ]] || printf -v line %q "$line"
			COMPREPLY+=("$line")
		fi
	done < <("$program" complete line "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _hcpctl hcpctl
