# SPDX-License-Identifier: MIT
# fish completion for hcpctl(1). What may stand where, hcpctl itself says: see `hcpctl complete --help`.

function __hcpctl_complete
	set -l before (commandline -opc)
	set -l current (commandline -ct)
	set -l program $before[1]
	set -e before[1]
	for line in ($program complete line $before "$current" 2>/dev/null)
		if test "$line" = :files
			__fish_complete_path "$current"
		else
			echo $line
		end
	end
end

complete -c hcpctl -f -a '(__hcpctl_complete)'
