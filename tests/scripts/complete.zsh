# SPDX-License-Identifier: MIT
# complete.zsh: types a line and a tab into an interactive zsh with compsys, and prints what became of it: the list that
# was shown, and the line in BUFFER<...>.
#   zsh -f complete.zsh COMPLETIONS-DIRECTORY SCRATCH-DIRECTORY LINE
zmodload zsh/zpty
zpty -b shell "TERM=dumb exec zsh -f -i"
zpty -w shell "stty rows 400 cols 200; PS1=; PS2=; LISTMAX=9999; setopt nobeep nopromptsp; fpath=(${(q)1} \$fpath)"
zpty -w shell "autoload -Uz compinit; compinit -u -D; tell() { zle -I; print -r -- \"BUFFER<\$BUFFER>\" }; zle -N tell; bindkey '^X^D' tell"
zpty -w shell "print -r rea''dy"
zpty -r -m shell seen "*ready"$'\r'"*"
zpty -w -n shell "$3"$'\t\C-x\C-d'
zpty -r -m shell seen "*BUFFER<*>*"
print -r -- "$seen"
zpty -d shell
