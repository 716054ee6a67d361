"""The kinds of servers, by the names that command lines call them."""

from etcd import Etcd, EtcdThree
from mariadb import MariaDB
from postgres import Postgres
from servers import Redis, RedLock
from zookeeper import ZooKeeper, ZooKeeperThree

KINDS = {kind.name: kind for kind in (Redis, RedLock, ZooKeeper, ZooKeeperThree, Etcd, EtcdThree,
                                      MariaDB, Postgres)}
