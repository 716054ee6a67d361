"""How the servers are reached: TLS, accounts and passwords, sockets, lists of servers."""

import os

import servers
from client import check_run, run
from database import OWNER, Account
from harness import case, check, check_equal, wait_until
from mariadb import MariaDBReplica
from setting import check_nothing, setting

DENIED, CONFIG, UNREACHABLE, LIMIT = 77, 78, 69, 75
STRANGER = Account(OWNER.name, "tell-nobody")


# --- TLS ---


@case
def tls_is_spoken_with_a_server_that_the_ca_vouches_for(world):
    """Nothing else is let in by this server (require_secure_transport)."""
    with setting(world, tls=True) as (here, client):
        here.open(client)
        client.acquire("n")
        client.release()
        check_nothing(here, client)


@case
def a_server_that_the_ca_does_not_vouch_for_is_refused(world):
    with setting(world, 2, tls=True) as (here, first, second):
        other = servers.Certificates(os.path.join(here.place.folder, "other"))
        first.open(here.store.url(ca=other.ca), "EDENIED", "certificate")
        plain = here.store.url(tls="off", ca="").replace("&ca=", "")
        second.open(plain, "EDENIED")


@case
def a_server_of_another_name_is_refused(world):
    with setting(world, tls=True, config={"bind-address": "0.0.0.0"}) as (here, client):
        client.open(here.store.url(at=[f"127.0.0.2:{here.store.port}"]), "EDENIED", "127.0.0.2")


@case
def tls_to_a_server_that_speaks_none_is_refused(world):
    with setting(world) as (here, client):
        client.open(here.store.url(tls="verify"), "EPROTOCOL", "does not speak TLS")


# --- accounts ---


@case
def who_has_the_password_is_let_in_and_others_are_not(world):
    with setting(world, 3) as (here, client, wrong, nobody):
        here.open(client)
        client.acquire("n")
        wrong.open(here.store.url(who=STRANGER), "EDENIED", "Access denied")
        nobody.open(f"mysql://{OWNER.name}@127.0.0.1:{here.store.port}/locks", "EDENIED",
                    "Access denied")
        client.release()
        result = run(world, here.store.url(who=STRANGER), "-n")
        check_equal(result.status, DENIED, "status of run")
        check(STRANGER.password not in result.err + result.out, "the password is told to nobody")


@case
def the_password_may_come_from_the_environment_or_a_file(world):
    with setting(world, 0) as (here,):
        url = f"mariadb://{OWNER.name}@127.0.0.1:{here.store.port}/locks"
        check_run(world, 0, [], url, environment={"HOLDFAST_PASSWORD": OWNER.password})
        check_run(world, DENIED, [], url, environment={"HOLDFAST_PASSWORD": "x"})
        path = world.write("password", OWNER.password + "\n")
        os.chmod(path, 0o600)
        check_run(world, 0, [], f"{url}?password_file={path}")


@case
def a_database_that_is_not_there_is_told(world):
    with setting(world) as (here, client):
        client.open(f"mysql://root@x/none?socket={here.store.socket_path()}", "EURL",
                    "Unknown database")


@case
def a_unix_socket_is_a_way_too(world):
    with setting(world, 0) as (here,):
        url = "mysql://root@x/locks?socket="
        check_run(world, 0, [], url + here.store.socket_path())
        check_run(world, UNREACHABLE, [], url + "/nowhere")


@case
def nonsense_in_the_url_is_refused(world):
    for options, text in (("prefix=a-b", "prefix="), ("prefix=9", "prefix="),
                          ("tls=perhaps", "tls is 'off' or 'verify'"), ("ca=/x", "tls=verify"),
                          ("layout=x", "no option 'layout'"), ("socket=x", "not an absolute path"),
                          ("tls=verify&ca=/nowhere", "cannot be read")):
        check_run(world, CONFIG, [text], f"mysql://a@127.0.0.1/b?{options}")
    check_run(world, CONFIG, ["names no user"], "mysql://127.0.0.1/b")


# --- lists of servers ---


@case
def dead_servers_and_replicas_of_a_list_are_passed_over(world):
    with setting(world, 4, binlog=True) as (here, *clients):
        replica = here.place.add(MariaDBReplica, of=here.store)
        dead = servers.dead_address()
        alive = f"127.0.0.1:{here.store.port}"
        for client in clients:
            client.open(here.store.url(at=[dead, f"127.0.0.1:{replica.port}", alive]))
            client.acquire("n")
            client.release()
        check_run(world, UNREACHABLE, ["Connection refused"], here.store.url(at=[dead, dead]))


@case
def a_silent_server_of_a_list_is_passed_over(world):
    with setting(world, 1) as (here, client), setting(world, 0) as (silent,):
        silent.store.freeze()
        client.open(here.store.url(at=[f"127.0.0.1:{silent.store.port}",
                                       f"127.0.0.1:{here.store.port}"]), connect_ms=20000)
        client.acquire("n")
        client.release()
        silent.store.thaw()


@case
def a_server_that_is_full_has_reached_a_limit(world):
    """A client has three connections."""
    with setting(world, 2, config={"max-user-connections": 3}) as (here, client, late):
        here.open(client)
        wait_until(lambda: len(here.store.connections()) == 3, "all are there")
        client.acquire("n")
        late.open(here.store.url(), "ELIMIT", "max_user_connections")
        check_run(world, LIMIT, ["max_user_connections"], here.store.url())
        client.release()
