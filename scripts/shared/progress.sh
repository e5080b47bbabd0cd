# Messages and progress for the commands of this folder. Sourced, not run.

export LC_ALL=C.UTF-8
SLUICE_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
readonly SLUICE_ROOT
readonly SLUICE_LOG="$SLUICE_ROOT/build/setup.log"
SLUICE_STEP=0
SLUICE_STEPS=0

say() { printf '%s\n' "$*"; }

# The one clear line with which a command stops.
die() {
  printf 'sluice: %s\n' "$*" >&2
  exit 1
}

seconds_since() { printf '%d s' $((SECONDS - $1)); }

# plan_steps N: N more steps will follow.
plan_steps() { SLUICE_STEPS=$((SLUICE_STEPS + $1)); }

announce_step() {
  SLUICE_STEP=$((SLUICE_STEP + 1))
  if ((SLUICE_STEP > SLUICE_STEPS)); then SLUICE_STEPS=$SLUICE_STEP; fi
  say "[$SLUICE_STEP/$SLUICE_STEPS] $1 …"
}

# Shows that process $1 is still at work: a clock with the log's last line on a
# terminal, else a line every 30 seconds.
show_clock_until_done() {
  local pid=$1 start=$2 ticks=0 news
  while kill -0 "$pid" 2>/dev/null; do
    if [[ -t 1 ]]; then
      news=$(tail -n 1 "$SLUICE_LOG" | tr -cd '[:print:]' | cut -c 1-60)
      printf '\r\033[K      %s  %s' "$(seconds_since "$start")" "$news"
    elif ((ticks > 0 && ticks % 150 == 0)); then
      say "      still at it after $(seconds_since "$start")"
    fi
    ticks=$((ticks + 1))
    sleep 0.2
  done
  if [[ -t 1 ]]; then printf '\r\033[K'; fi
}

# quiet_step TITLE COMMAND...: runs the command with its output in the log.
quiet_step() {
  local title=$1 start=$SECONDS status=0
  shift
  announce_step "$title"
  mkdir -p "$(dirname "$SLUICE_LOG")"
  "$@" </dev/null >>"$SLUICE_LOG" 2>&1 &
  local pid=$!
  # Ctrl-C doesn't reach a child in the background.
  trap 'kill "$pid" 2>/dev/null; exit 130' INT TERM
  show_clock_until_done "$pid" "$start"
  wait "$pid" || status=$?
  trap - INT TERM
  if ((status == 0)); then say "      done in $(seconds_since "$start")"; fi
  return "$status"
}

# talking_step TITLE COMMAND...: for commands with a progress bar of their own,
# which is shown on a terminal.
talking_step() {
  if [[ ! -t 1 ]]; then
    quiet_step "$@"
    return
  fi
  local title=$1 start=$SECONDS
  shift
  announce_step "$title"
  "$@" </dev/null || return
  say "      done in $(seconds_since "$start")"
}

# The last line of the log that looks like a reason.
reason_in_log() {
  grep -E '^(E: |ERROR|error|Error)|rror:' "$SLUICE_LOG" 2>/dev/null |
    tail -n 1 | cut -c 1-200
}
