"""How a server is reached: TLS, users and passwords, rights, databases, sockets."""

import os
import socket
import urllib.parse

import servers
from client import Answer, check_run, run
from harness import case, check, check_equal, wait_until
from setting import RECIPES, setting

SECRET = "s3cret with blanks/and@delimiters"
ALL = "~* &* +@all"
DENIED, CONFIG, UNREACHABLE = 77, 78, 69


def other_authority(redis):
    return servers.Certificates(os.path.join(redis.place.folder, "other"))


def own_address():
    """One of this machine's that is not the loopback's, or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))  # sends nothing
            address = probe.getsockname()[0]
        except OSError:
            return None
    return None if address.startswith("127.") else address


# --- TLS ---


@case
def tls_is_spoken_with_a_server_that_the_ca_vouches_for(world):
    with setting(world, tls=True) as (redis, client):
        client.open(redis.url())
        client.acquire("n")
        client.release()
        for recipe in RECIPES:
            check_run(world, 0, [], redis.url(at=[f"localhost:{redis.port}"], recipe=recipe))


@case
def a_server_that_the_ca_does_not_vouch_for_is_refused(world):
    with setting(world, 2, tls=True) as (redis, first, second):
        untrusted = "the server's certificate is by nobody that is trusted (ca)"
        first.open(redis.url(ca=other_authority(redis).ca), "EDENIED", untrusted)
        second.open(f"rediss://127.0.0.1:{redis.port}", "EDENIED", untrusted)
        check_run(world, DENIED, [untrusted], f"rediss://127.0.0.1:{redis.port}")
        check_equal(redis.keys(), [], "what was taken")


@case
def a_server_of_another_name_is_refused(world):
    with setting(world, 1, tls=True, config={"bind": "127.0.0.1 127.0.0.2"}) as (redis, client):
        client.open(redis.url(at=[f"127.0.0.2:{redis.port}"]), "EDENIED",
                    "the server's certificate is not for '127.0.0.2'")


@case
def a_client_certificate_is_shown_and_must_be_good(world):
    with setting(world, 5, tls="client") as (redis, good, missing, strange, mixed, half):
        made, other = redis.place.certificates, other_authority(redis)
        plain = f"rediss://127.0.0.1:{redis.port}?ca={made.ca}"
        good.open(redis.url())
        good.acquire("n")
        missing.open(plain, "EDENIED", "it wants a certificate of ours (cert, cert_key)")
        strange.open(f"{plain}&cert={other.client}&cert_key={other.key('client')}", "EDENIED",
                     "the server refused us", "unknown ca")
        mixed.open(f"{plain}&cert={made.client}&cert_key={other.key('client')}", "EURL",
                   "cert_key: ", "key values mismatch")
        half.open(f"{plain}&cert={made.client}", "EURL", "cert and cert_key go together")


@case
def files_for_tls_that_are_none_are_named(world):
    with setting(world, 3, tls=True) as (redis, missing, nonsense, plain):
        missing.open(redis.url(ca="/nonexistent"), "EURL", "ca: '/nonexistent': No such file")
        nonsense.open(redis.url(ca="/etc/passwd"), "EURL", "ca: '/etc/passwd': no certificate")
        plain.open(f"redis://127.0.0.1:{redis.port}?ca=x", "EURL", "ca is for TLS")


@case
def tls_to_a_plain_port_ends_with_a_hint(world):
    with setting(world) as (redis, client):
        client.open(f"rediss://127.0.0.1:{redis.port}", "EUNREACHABLE",
                    "no TLS handshake in time (perhaps the server does not speak TLS)",
                    connect_ms=6000)


@case
def plain_text_to_a_tls_port_ends_with_a_hint(world):
    with setting(world, tls=True) as (redis, client):
        client.open(f"redis://127.0.0.1:{redis.port}", "EUNREACHABLE",
                    "before it said a word; perhaps it wants TLS (rediss://)", connect_ms=500)


# --- users and passwords ---


def at(redis, who, **options):
    query = urllib.parse.urlencode(options, quote_via=urllib.parse.quote)
    return f"redis://{who}127.0.0.1:{redis.port}" + ("?" + query if query else "")


@case
def a_user_comes_in_with_the_right_password_only(world):
    with setting(world, 5, acl=("app", SECRET, ALL)) as (redis, right, wrong, none, nobody, other):
        right.open(redis.url())
        right.acquire("n")
        wrong.open(at(redis, "app:wrong@"), "EDENIED", "the user or the password is wrong")
        none.open(at(redis, "app@"), "EDENIED", "the user or the password is wrong")
        nobody.open(at(redis, ""), "EDENIED", "the server wants a password")
        other.open(at(redis, "someone:x@"), "EDENIED", "the user or the password is wrong")
        result = run(world, at(redis, "app:tell-nobody@"))
        check_equal(result.status, DENIED, "status of run")
        check("tell-nobody" not in result.err + result.out, "the password is told to nobody")


@case
def a_server_with_one_password_for_all(world):
    with setting(world, 3) as (redis, right, wrong, none):
        redis.call("CONFIG", "SET", "requirepass", "pw")
        right.open(at(redis, ":pw@"))
        right.acquire("n")
        wrong.open(at(redis, ":other@"), "EDENIED", "the user or the password is wrong")
        none.open(at(redis, ""), "EDENIED", "the server wants a password")


@case
def the_password_may_come_from_the_environment(world):
    with setting(world, 0, acl=("app", SECRET, ALL)) as (redis,):
        url = at(redis, "app@")
        check_run(world, 0, [], url, environment={"HOLDFAST_PASSWORD": SECRET})
        check_run(world, DENIED, ["is wrong"], url, environment={"HOLDFAST_PASSWORD": "x"})


def write_secret(world, text, mode=0o600):
    path = world.write("password", text)
    os.chmod(path, mode)
    return path


@case
def the_password_may_lie_in_a_file(world):
    with setting(world, 2, acl=("app", SECRET, ALL)) as (redis, right, wrong):
        url = at(redis, "app@", password_file=write_secret(world, SECRET + "\n"))
        for recipe in RECIPES:
            check_run(world, 0, [], f"{url}&recipe={recipe}")
        check_run(world, 0, [], url, environment={"HOLDFAST_PASSWORD": "not looked at"})
        right.open(url)
        right.acquire("n")
        write_secret(world, "wrong\n")
        wrong.open(url, "EDENIED", "the user or the password is wrong")


@case
def a_file_that_can_be_no_password_is_named(world):
    with setting(world, 7, acl=("app", SECRET, ALL)) as (redis, *clients):
        path = write_secret(world, SECRET)
        url = at(redis, "app@", password_file=path)
        clients[0].open(url.replace("app@", "app:x@"), "EURL", "a password and password_file")
        os.chmod(path, 0o666)
        clients[1].open(url, "EURL", f"everybody may write '{path}'")
        write_secret(world, "\n")
        clients[2].open(url, "EURL", f"'{path}' holds no password")
        write_secret(world, "x" * 300)
        clients[3].open(url, "EURL", f"'{path}': longer than 255 bytes")
        write_secret(world, "one\ntwo\n")
        clients[4].open(url, "EURL", f"'{path}' has more than one line")
        os.unlink(path)
        clients[5].open(url, "EURL", f"'{path}': No such file or directory")
        os.mkdir(path)
        clients[6].open(url, "EURL", f"'{path}' is not a regular file")
        check_run(world, CONFIG, ["is not a regular file"], url)


@case
def a_password_that_changes_is_read_again(world):
    with setting(world, acl=("app", SECRET, ALL)) as (redis, client):
        client.open(at(redis, "app@", password_file=write_secret(world, SECRET)))
        client.acquire("n", lease_ms=30000)
        redis.call("ACL", "SETUSER", "app", "resetpass", ">new")
        write_secret(world, "new\n")
        for kind in ("normal", "pubsub"):
            redis.call("CLIENT", "KILL", "TYPE", kind)
        check_equal(client.ask("valid"), "1", "valid while it connects again")
        wait_until(lambda: Answer(client.ask("extend 20000")).status == "OK", "it is let in again")
        client.release()


@case
def what_a_user_may_not_do_at_the_beginning_is_named(world):
    rights = {
        "-info": "INFO: the user lacks a right (NOPERM",
        "-select": "SELECT: the user lacks a right (NOPERM",
        "-eval": "EVAL: the user lacks a right (NOPERM",
        "-time": "TIME: the user lacks a right (NOPERM",
        "-subscribe": "SUBSCRIBE: the user lacks a right (NOPERM",
        "resetchannels": "SUBSCRIBE: the user lacks a right (NOPERM",
        "-script": "SCRIPT LOAD: the user lacks a right (NOPERM",
        "-script|load": "SCRIPT LOAD: the user lacks a right (NOPERM",
    }
    with setting(world, len(rights), acl=("app", SECRET, ALL)) as (redis, *clients):
        for client, (right, text) in zip(clients, rights.items()):
            redis.call("ACL", "SETUSER", "app", "+@all", "allchannels", right)
            client.open(redis.url(), "EDENIED", text)


@case
def what_a_user_may_not_do_with_a_lock_is_named(world):
    scripts = "the user lacks a right that our scripts need; ACL LOG on the server tells which"
    rights = {
        "-evalsha": ["the user lacks a right", "'evalsha' command"],
        "resetkeys": ["the user lacks a right", "one of the keys used as arguments"],
        "-set": [scripts],
    }
    with setting(world, 2 * len(rights), acl=("app", SECRET, ALL)) as (redis, *clients):
        for number, (right, texts) in enumerate(rights.items()):
            for recipe in ("fair", "set"):
                client = clients.pop()
                redis.call("ACL", "SETUSER", "app", "+@all", "allkeys", right)
                client.open(redis.url(recipe=recipe))
                client.acquire(f"n{number}", "EDENIED", *texts, wait_ms=5000)
        check_equal(redis.keys(), [], "what was left behind")


@case
def a_claim_that_a_script_gave_up_halfway_is_undone(world):
    with setting(world, 2, acl=("app", SECRET, ALL)) as (redis, client, other):
        client.open(redis.url(recipe="setnx"))
        other.open(redis.url(recipe="setnx"))
        redis.call("ACL", "SETUSER", "app", "-set")
        client.acquire("n", "EDENIED", "the user lacks a right that our scripts need")
        redis.call("ACL", "SETUSER", "app", "+set")
        other.acquire("n", wait_ms=20000)


@case
def the_rights_that_the_manual_names_are_enough(world):
    rights = ("~hf:* &hf:* -@all +hello +select +info +time +subscribe +script|load +eval +evalsha"
              " +scan +@string +@sortedset +@hash +@list +@set +@keyspace +publish")
    with setting(world, 2, acl=("app", SECRET, rights)) as (redis, client, waiter):
        client.open(redis.url())
        waiter.open(redis.url())
        first = client.acquire("n").fence
        waiter.do("start 30000 -1 n")
        check_equal(client.do("list *").text, "2", "those who are listed")
        client.release()
        check(waiter.do("wait -1").fence > first, "fences rise")
        waiter.release()
        check_equal(client.promises() & {"fence", "durable"}, set(), "promises without CONFIG")


# --- databases, sockets, addresses ---


@case
def databases_do_not_know_of_each_other(world):
    for recipe in RECIPES:
        with setting(world, 4) as (redis, none, third, same, default):
            none.open(redis.url(recipe=recipe))
            third.open(at(redis, "") + f"/3?recipe={recipe}")
            same.open(at(redis, "") + f"/3?recipe={recipe}")
            default.open(at(redis, "") + f"/0?recipe={recipe}")
            none.acquire("n")
            third.acquire("n", wait_ms=0)
            same.acquire("n", "EBUSY", wait_ms=0)
            default.acquire("n", "EBUSY", wait_ms=0)


@case
def a_database_that_does_not_exist_is_named(world):
    with setting(world, 3) as (redis, high, word, negative):
        high.open(at(redis, "") + "/99", "EURL", "the server has no database '99'")
        word.open(at(redis, "") + "/abc", "EURL", "the server has no database 'abc'")
        negative.open(at(redis, "") + "/-1", "EURL", "the server has no database '-1'")
        check_run(world, CONFIG, ["no database '99'"], at(redis, "") + "/99")


@case
def a_unix_socket_leads_to_the_same_locks(world):
    with setting(world, 3) as (redis, client, other, missing):
        path = redis.socket_path
        client.open(f"redis://localhost?socket={path}")
        client.acquire("n")
        other.open(redis.url())
        other.acquire("n", "EBUSY", wait_ms=0)
        missing.open(f"redis://localhost?socket={path}x", "EUNREACHABLE",
                     f"{path}x: No such file or directory", connect_ms=300)


@case
def nobody_at_the_port_is_told(world):
    with setting(world, 0) as (redis,):
        redis.kill()
        check_run(world, UNREACHABLE, ["Connection refused"], redis.url())


def a_server_in_protected_mode_lets_nobody_in(world):
    with setting(world, 1, config={"bind": "*"}) as (redis, client):
        client.open(f"redis://{own_address()}:{redis.port}", "EDENIED",
                    "the server is in protected mode")


if own_address():
    case(a_server_in_protected_mode_lets_nobody_in)


@case
def a_server_with_too_many_clients_is_told(world):
    with setting(world, 2) as (redis, inside, outside):
        inside.open(redis.url())
        inside.acquire("n")
        count = int(redis.call("INFO", "clients").split("connected_clients:")[1].split()[0])
        redis.call("CONFIG", "SET", "maxclients", count - 1)
        outside.open(redis.url(), "EUNREACHABLE", "the server has too many clients",
                     connect_ms=500)
        inside.release()
