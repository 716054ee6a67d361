# The front door. The build itself is Meson's; this file only saves typing.
#
#   make                  builds build/holdfast, build/libholdfast.so and build/libholdfast.a
#   make demo             installs what the build needs, builds, and shows processes taking turns
#   make check            installs what the tests need, builds, and runs every suite (49 minutes)
#   make check-fast       the suites for every commit (<= 3 minutes, no servers)
#   make check-long       the long runs
#   make bench            measures this machine, beside flock(2) and a bare futex
#   make bench-redis      measures Redis and RedLock, beside redis-py and npm redlock (4 minutes)
#   make bench-zookeeper  measures ZooKeeper, beside Curator and kazoo (4 minutes)
#   make bench-etcd       measures etcd, beside the Mutex of its own Go library (3 minutes)
#   make bench-postgres   measures PostgreSQL, beside INSERT and pg_advisory_lock (3 minutes)
#   make bench-mysql      measures MariaDB, beside INSERT and GET_LOCK (3 minutes)
#   make install          into PREFIX (/usr/local), under DESTDIR
#   make clean            removes what was built
#
# `make demo` and `make check` each work on a Debian 12 that has only git and make.

BUILDS = build build-check build-asan build-tsan build-coverage build-clang build-fuzz

.PHONY: all demo check check-fast check-long bench bench-redis bench-zookeeper bench-etcd \
        bench-postgres bench-mysql install clean

all: build/build.ninja
	ninja -C build

build/build.ninja:
	@command -v meson >/dev/null || { \
	  echo "meson is missing: 'packages/install build' installs what the build needs" >&2; \
	  exit 1; }
	meson setup $(if $(PREFIX),--prefix=$(PREFIX)) -Dtests=disabled build

demo:
	@packages/install build
	@$(MAKE) --no-print-directory all
	@examples/demo.sh build/holdfast

check check-fast check-long:
	@packages/install build check
	@$(MAKE) --no-print-directory all
	@test/run $@

bench: all
	build/holdfast bench

bench-redis bench-zookeeper bench-etcd bench-postgres bench-mysql:
	@packages/install build check
	@$(MAKE) --no-print-directory all
	bench/$(@:bench-%=%) build

install: all
	$(if $(PREFIX),meson configure build --prefix=$(PREFIX))
	meson install -C build $(if $(DESTDIR),--destdir $(abspath $(DESTDIR)))

clean:
	rm -rf $(BUILDS)
