#!/usr/bin/env bash
# Builds the Debian package and runs package.sh with it on a bare Debian 12 that debootstrap makes: bare.sh BUILD, as root. The new system has
# this one's package sources, certificates and network, and nothing else. Ends with `N passed, N failed`.
set -euo pipefail
build=$(realpath "$1") source=$(realpath "$(dirname "$0")/../..")
command -v debootstrap >/dev/null || apt-get install -y -qq debootstrap >/dev/null
ninja --quiet -C "$build" package-deb >/dev/null
root=$(mktemp -d)
mounts=(proc sys dev dev/pts)
cleanup() {
  for ((i = ${#mounts[@]} - 1; i >= 0; --i)); do umount -l "$root/${mounts[i]}" 2>/dev/null || true; done
  rm -rf --one-file-system "$root"
}
trap cleanup EXIT
# The first source that is no comment and not that of security updates.
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | grep -E '^(URIs:|deb )' | grep -v security | grep -oE 'https?://[^ ]+' | head -n 1 || true)
debootstrap --variant=minbase --include=ca-certificates bookworm "$root" "${mirror:-http://deb.debian.org/debian}" >/dev/null
rm -rf "$root/etc/apt" "$root/etc/ssl/certs"
cp -a /etc/apt "$root/etc/apt"
cp -aL /etc/ssl/certs "$root/etc/ssl/certs"
mkdir -p "$root/usr/share/keyrings"
cp -a /usr/share/keyrings/. "$root/usr/share/keyrings/"
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
for mount in "${mounts[@]}"; do mount --bind "/$mount" "$root/$mount"; done
mkdir "$root/story"
cp "$source/test/install/package.sh" "$build"/package/divisi_*.deb "$root/story/"
cp -r "$source/examples/digits" "$root/story/digits"
chroot "$root" env -i HOME=/tmp PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
  bash -c 'bash /story/package.sh /story/divisi_*.deb /story/digits'
