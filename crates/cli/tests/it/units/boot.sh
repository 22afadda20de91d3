#!/bin/bash
# Boots a systemd of its own over this machine's files, none of which it changes, has it run STORY, and ends with it.
# Run by root in new mount, PID, cgroup, network, UTS and IPC namespaces:
#   boot.sh SCENE STORY
# SCENE is a directory that is seen as /scene in there; what STORY says is in SCENE/told.
set -eu
scene=$1 story=$2
mount --make-rprivate /
root=$scene/root
mkdir -p "$root"
mount -t tmpfs -o mode=755 layer "$root"
mkdir "$root/upper" "$root/work" "$root/top"
mount -t overlay -o "lowerdir=/,upperdir=$root/upper,workdir=$root/work" overlay "$root/top"
root=$root/top

mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 run "$root/run"
mount -t tmpfs -o mode=1777 tmp "$root/tmp"
mount -t tmpfs -o mode=755 dev "$root/dev"
for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"
ln -s pts/ptmx "$root/dev/ptmx"
mkdir "$root/dev/pts" "$root/dev/shm" "$root/scene"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
mount --bind "$scene" "$root/scene"

# Nothing of the machine's own is started: these are all the units there are, and those that the story installs.
rm -rf "$root/etc/systemd/system"
mkdir -p "$root/etc/systemd/system" "$root/units"
cp /lib/systemd/system/systemd-journald.{service,socket} "$root/units"
for target in basic default multi-user network network-online shutdown; do
    printf '[Unit]\nDefaultDependencies=no\n' > "$root/units/$target.target"
done
printf '[Unit]\nDefaultDependencies=no\nRequires=systemd-journald.service\n' > "$root/units/sysinit.target"
cat > "$root/units/story.service" <<UNIT
[Unit]
Requires=systemd-journald.service
After=systemd-journald.service
SuccessAction=exit-force
FailureAction=exit-force
[Service]
Type=oneshot
TimeoutStartSec=240
ExecStart=/bin/bash -eu /scene/$story
# What is left would have a minute and a half to end by itself.
ExecStopPost=/bin/sh -c 'journalctl --no-pager -o short-monotonic > /scene/journal; kill -KILL -1'
StandardOutput=append:/scene/told
StandardError=append:/scene/told
UNIT

cd "$root"
mkdir old
pivot_root . old
umount -l /old
mount --make-rshared /
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=other SYSTEMD_UNIT_PATH=/etc/systemd/system:/units \
    /lib/systemd/systemd --unit=story.service --log-target=journal --show-status=no systemd.unified_cgroup_hierarchy=1 \
    < /dev/null > /dev/null 2>&1
