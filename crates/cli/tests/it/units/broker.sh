# The unit that `keyless broker install` writes, under the systemd of an account.
install -m 0755 /scene/keyless /usr/local/bin/keyless
systemd-sysusers --inline 'u ada - "" /home/ada' 2> /dev/null
install -d -m 0700 -o ada -g ada /home/ada /run/user/ada
install -m 0755 /scene/account.sh /home/ada
systemd-run --quiet --unit=ada --uid=ada --service-type=notify -p Delegate=yes \
    --setenv=HOME=/home/ada --setenv=XDG_RUNTIME_DIR=/run/user/ada \
    --setenv=SYSTEMD_UNIT_PATH=/home/ada/.config/systemd/user:/units /lib/systemd/systemd --user
exec setpriv --reuid=ada --regid=ada --init-groups env -i PATH=/usr/local/bin:/usr/bin:/bin \
    HOME=/home/ada XDG_RUNTIME_DIR=/run/user/ada bash -eu /home/ada/account.sh
