# Goes into a container. Set before: nonce, name, boot. Standard input is for the shell in the container.
say() { printf '\n%s %s\n' "$nonce" "$*"; }
PATH=$PATH:/usr/local/bin:/usr/bin:/bin
tool=
stopped=
why=
for t in docker podman; do
  command -v "$t" >/dev/null 2>&1 || continue
  state=$("$t" inspect --type container --format '{{.State.Running}}' "$name" 2>&1 </dev/null)
  case $state in
    true) tool=$t; break ;;
    false) stopped=$t ;;
    *) why="$why$t: $state " ;;
  esac
done
if [ -n "$tool" ]; then
  say entering "$tool"
  exec "$tool" exec -i "$name" sh -c "$boot"
elif [ -n "$stopped" ]; then
  say fail stopped "$stopped"
elif [ -n "$why" ]; then
  say fail unknown "$(printf %s "$why" | tr '\n\r' '  ')"
else
  say fail no-tool
fi
exit 1
