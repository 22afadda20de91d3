# The sidecar of deploy/systemd: installed as the unit says, used, reloaded, killed, stopped.
cd /scene
sh -eux installed.sh 2>> commands
unit() { systemctl show keyless-proxy --value -p "$1"; }
placeholder=$(keyless placeholders --catalog /etc/keyless/catalog.yaml \
    --key-file /var/lib/keyless/placeholder.key --session default | cut -d= -f2)
url() { journalctl -u keyless-proxy -o cat | sed -n 's/^Proxy URL: *//p' | tail -n 1; }
first=$(url)
ask() { curl -sS --max-time 20 -x "$first" -H "X-Key: $placeholder" "http://origin.test:8080/$1"; }

echo "127.0.0.1 origin.test" >> /etc/hosts
python3 origin.py > got &
until curl -s -o /dev/null http://127.0.0.1:8080/; do sleep 0.1; done

echo "started: $(unit ActiveState), as $(unit User), $(curl -s http://127.0.0.1:9464/readyz -o /dev/null -w '%{http_code}')"
ask started

install -m 0640 -o root -g keyless rotated /etc/keyless/secrets/github/token
systemctl reload keyless-proxy
until curl -s http://127.0.0.1:9464/healthz | grep -q '"taken_up":[1-9]'; do sleep 0.1; done
ask reloaded

systemctl kill -s KILL keyless-proxy
until [ "$(unit NRestarts) $(unit ActiveState)" = "1 active" ]; do sleep 0.1; done
[ "$(url)" = "$first" ] && echo "restarted: the same way in"
ask restarted

(ask slow; echo "what was under way: $?") &
until grep -q slow got; do sleep 0.1; done
systemctl stop keyless-proxy
wait $!
echo "stopped: $(unit ActiveState), $(unit Result)"
