#!/usr/bin/env bash
# Does it work on a Debian 12 that has git and make, and nothing else?
#
#     test/fresh/debian12.sh [TARGET...]        (default: demo check)
#
# For each target a chroot of its own is made, the last commit is cloned into it, and `make TARGET`
# is the only command typed there. Takes root, debootstrap, a few minutes and 3 GB below $TMPDIR.
# The package mirror is the one that this machine itself uses. Mounts and processes live in
# namespaces that end with the script, however it ends; the directory is removed.
set -euo pipefail

SUITE=bookworm

if [[ ${1:-} == --inside ]]; then # in the namespaces; $2 is the chroot, $3 the target
    root=$2
    mount --make-rprivate /
    mount --bind "$root" "$root" # so that its / is a mount point, as on a machine
    mount -t proc proc "$root/proc"
    mount -t sysfs -o ro,nosuid,nodev,noexec sysfs "$root/sys"
    mount -t tmpfs -o mode=0755 tmpfs "$root/dev"
    for node in null zero full random urandom tty; do
        touch "$root/dev/$node"
        mount --bind "/dev/$node" "$root/dev/$node"
    done
    mkdir "$root/dev/pts" "$root/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts "$root/dev/pts"
    ln -s pts/ptmx "$root/dev/ptmx"
    ln -s /proc/self/fd "$root/dev/fd"
    ln -s fd/0 "$root/dev/stdin"
    ln -s fd/1 "$root/dev/stdout"
    ln -s fd/2 "$root/dev/stderr"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM="${TERM:-dumb}" \
        chroot "$root" /bin/bash -c "cd /srv/holdfast && exec make $3"
fi

if ((EUID != 0)); then
    echo "a chroot takes root" >&2
    exit 1
fi
if ! command -v debootstrap >/dev/null; then
    echo "debootstrap is missing: apt-get install debootstrap" >&2
    exit 1
fi

self=$(realpath "${BASH_SOURCE[0]}")
repository=$(git -C "$(dirname "$self")" rev-parse --show-toplevel)
# shellcheck disable=SC2016 # the names in $() are apt's
sources=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' \
    'Created-By: Packages' | awk -v suite="$SUITE" '$2 ~ "^" suite && $3 == "main"' | sort -u)
mirror=$(awk -v suite="$SUITE" '$2 == suite { print $1; exit }' <<<"$sources")
if [[ -z $mirror ]]; then
    echo "this machine's apt sources have no $SUITE to take the packages from" >&2
    exit 1
fi

directory=$(mktemp -d)
trap 'rm -rf --one-file-system "$directory"' EXIT

echo "== a Debian 12 with git and make"
debootstrap --variant=minbase --include=git,make "$SUITE" "$directory/base" "$mirror" \
    >"$directory/debootstrap.log" || {
    tail -n 20 "$directory/debootstrap.log" >&2
    exit 1
}
while read -r uri release component; do
    echo "deb $uri $release $component"
done <<<"$sources" >"$directory/base/etc/apt/sources.list"
cp /etc/resolv.conf "$directory/base/etc/resolv.conf"

targets=("$@")
((${#targets[@]})) || targets=(demo check)
failed=0
for target in "${targets[@]}"; do
    root=$directory/$target
    cp -a "$directory/base" "$root"
    git clone --quiet "file://$repository" "$root/srv/holdfast"
    echo "== make $target, at $(git -C "$root/srv/holdfast" log -1 --format='%h %s')"
    if unshare --mount --pid --fork --kill-child "$self" --inside "$root" "$target"; then
        echo "== make $target: fine on a fresh Debian 12, $SECONDS s so far"
    else
        echo "== make $target: FAILED on a fresh Debian 12"
        failed=1
    fi
    rm -rf --one-file-system "$root"
done
exit "$failed"
