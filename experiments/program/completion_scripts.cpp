// `sluice completion`.
#include "experiments/program/completion.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

// Readline replaces only what follows the last "=" or ":" of a word, so what
// comes before it is taken away from each candidate. Where there is none, bash
// completes files.
constexpr std::string_view kBash =
    R"script(# For bash: source <(sluice completion bash)
_sluice() {
  local line=${COMP_LINE:0:COMP_POINT} word break
  local -a words
  read -ra words <<< "$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  word=${words[${#words[@]} - 1]}
  local IFS=$'\n'
  COMPREPLY=($("${words[0]/#\~/$HOME}" complete "${words[@]:1}" 2>/dev/null))
  if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then
    compopt -o nospace 2>/dev/null
  fi
  for break in = :; do
    if [[ $word == *"$break"* && $COMP_WORDBREAKS == *"$break"* ]]; then
      COMPREPLY=("${COMPREPLY[@]#"${word%"$break"*}$break"}")
    fi
  done
}
complete -o default -F _sluice sluice
)script";

constexpr std::string_view kZsh =
    R"script(#compdef sluice
# For zsh: in a folder of $fpath as _sluice, or source <(sluice completion zsh)
_sluice() {
  local -a found keys others
  found=(${(f)"$("${words[1]/#\~/$HOME}" complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if (( ${#found} == 0 )); then
    _files
    return
  fi
  keys=(${(M)found:#*=})
  others=(${found:#*=})
  (( ${#keys} )) && compadd -Q -S '' -- $keys
  (( ${#others} )) && compadd -Q -- $others
}
if [ "${funcstack[1]}" = "_sluice" ]; then
  _sluice "$@"
else
  compdef _sluice sluice
fi
)script";

constexpr std::string_view kFish =
    R"script(# For fish: sluice completion fish > ~/.config/fish/completions/sluice.fish
function __sluice_ways
  set -l words (commandline -opc)
  set -l last (commandline -ct)
  test -z "$last"; and set last ""
  set -l program $words[1]
  set -e words[1]
  $program complete $words $last 2>/dev/null
end
function __sluice_takes_files
  test (count (__sluice_ways)) -eq 0
end
complete -c sluice -f -a '(__sluice_ways)'
complete -c sluice -n __sluice_takes_files -F
)script";

}  // namespace

std::string_view completion_script(std::string_view shell) {
  if (shell == "bash") return kBash;
  if (shell == "zsh") return kZsh;
  if (shell == "fish") return kFish;
  throw UserError(
      "there is no completion for '{}'; there is for bash, zsh and "
      "fish",
      shell);
}

}  // namespace sluice
