"""How the servers are reached: TLS, users and passwords, rights, chroot, lists of servers."""

import os

import servers
import tree
from client import check_run, run
from harness import case, check, check_equal
from setting import RECIPES, ROOT, check_empty, line, path_of, setting, three

SECRET = "s3cret with blanks/and@delimiters"
WHO = "app:s3cret%20with%20blanks%2Fand%40delimiters"
DENIED, CONFIG, UNREACHABLE = 77, 78, 69


def other_authority(here):
    return servers.Certificates(os.path.join(here.store.place.folder, "other"))


# --- TLS ---


@case
def tls_is_spoken_with_a_server_that_the_ca_vouches_for(world):
    with setting(world, tls=True) as (here, client):
        client.open(here.url())
        client.acquire("n")
        check_equal(len(line(here.look())), 1, "nodes")
        client.release()
        for recipe in RECIPES:
            url = here.store.url(at=[f"localhost:{here.store.port}"], recipe=recipe)
            check_run(world, 0, [], url, name=recipe)


@case
def a_server_that_the_ca_does_not_vouch_for_is_refused(world):
    with setting(world, 2, tls=True) as (here, first, second):
        untrusted = "the server's certificate is by nobody that is trusted (ca)"
        plain = f"zookeepers://127.0.0.1:{here.store.port}"
        first.open(here.url(ca=other_authority(here).ca), "EDENIED", untrusted)
        second.open(plain, "EDENIED", untrusted)
        check_run(world, DENIED, [untrusted], plain)
        check_equal(here.look().children(ROOT), None, "what was made")


@case
def a_server_of_another_name_is_refused(world):
    config = {"secureClientPortAddress": "0.0.0.0"}
    with setting(world, tls=True, config=config) as (here, client):
        client.open(here.store.url(at=[f"127.0.0.2:{here.store.port}"]), "EDENIED",
                    "the server's certificate is not for '127.0.0.2'")


@case
def a_client_certificate_is_shown_and_must_be_good(world):
    with setting(world, 3, tls="client") as (here, good, missing, strange):
        made, other = here.store.place.certificates, other_authority(here)
        plain = f"zookeepers://127.0.0.1:{here.store.port}?ca={made.ca}"
        good.open(here.url())
        good.acquire("n")
        missing.open(plain, "EDENIED", connect_ms=3000)
        strange.open(f"{plain}&cert={other.client}&cert_key={other.key('client')}", "EDENIED",
                     connect_ms=3000)


@case
def three_servers_speak_tls(world):
    with three(world, tls=True) as (here, client):
        client.open(here.url(), require=("failover",))
        client.acquire("n")
        here.store.leader().kill()
        here.store.leader()
        check_equal(client.ask("valid"), "1", "valid without the leader")
        client.release()


@case
def tls_to_a_plain_port_ends_with_a_hint(world):
    with setting(world) as (here, client):
        client.open(f"zookeepers://127.0.0.1:{here.store.port}", "EUNREACHABLE", "TLS",
                    connect_ms=3000)


@case
def plain_text_to_a_tls_port_ends_with_a_hint(world):
    with setting(world, tls=True) as (here, client):
        client.open(f"zookeeper://127.0.0.1:{here.store.port}", "EUNREACHABLE",
                    "TLS (zookeepers://)", connect_ms=3000)


# --- users and rights ---


@case
def what_a_user_makes_is_its_own(world):
    for recipe in RECIPES:
        with setting(world, 3) as (here, client, same, stranger):
            client.open(here.url(who=WHO, recipe=recipe))
            client.acquire("n")
            look = here.look()
            nodes = [path for path in look.walk(ROOT) if look.stat(path).owner]
            check_equal([look.acl(path) for path in nodes],
                        [[(31, "digest", tree.digest("app", SECRET))]], "rights to the node")
            same.open(here.url(who=WHO, recipe=recipe))
            same.acquire("n", "EBUSY", wait_ms=0)
            stranger.open(here.url(recipe=recipe))
            stranger.acquire("n", "EDENIED", "the account lacks a right to this node", wait_ms=0)
            client.release()
            check_empty(here)


@case
def a_wrong_password_is_another_user(world):
    with setting(world, 2) as (here, client, wrong):
        client.open(here.url(who=WHO))
        client.acquire("n")
        wrong.open(here.url(who="app:other"))
        wrong.acquire("n", "EDENIED", "the account lacks a right to this node", wait_ms=0)
        result = run(world, here.url(who="app:tell-nobody"), "-n")
        check_equal(result.status, DENIED, "status of run")
        check("tell-nobody" not in result.err + result.out, "the password is told to nobody")
        client.release()


@case
def the_password_may_come_from_the_environment_or_a_file(world):
    with setting(world, 1) as (here, client):
        client.open(here.url(who=WHO))
        client.acquire("n")
        client.release()
        url = here.url(who="app")
        check_run(world, 0, [], url, environment={"HOLDFAST_PASSWORD": SECRET})
        check_run(world, DENIED, ["lacks a right"], url, environment={"HOLDFAST_PASSWORD": "x"})
        path = world.write("password", SECRET + "\n")
        os.chmod(path, 0o600)
        check_run(world, 0, [], here.url(who="app", password_file=path))


@case
def a_place_where_we_may_not_write_is_denied(world):
    for recipe in RECIPES:
        with setting(world, 2) as (here, client, reader):
            look = here.look()
            look.create(ROOT, acl=(("r", "world", "anyone"),))
            client.open(here.url(recipe=recipe))
            client.acquire("n", "EDENIED", "the account lacks a right to this node", wait_ms=0)
            client.acquire("n", "EDENIED", "the account lacks a right to this node", wait_ms=5000)
            check_run(world, DENIED, ["lacks a right"], here.url(recipe=recipe))
            look.create("/closed", acl=(("c", "world", "anyone"),))
            reader.open(here.url(recipe=recipe, prefix="/closed/"))
            reader.do("list *", "EDENIED", "the account lacks a right to this node")


@case
def a_right_that_is_taken_away_from_a_holder_frees_nobody_else(world):
    with setting(world, 2) as (here, client, other):
        client.open(here.url(who=WHO))
        fence = client.acquire("n").fence
        look = here.look()
        look.set_acl(path_of("n"), (("r", "world", "anyone"),))
        client.do("release", "EUNKNOWN", "the account lacks a right to this node")
        check_equal(len(line(look)), 1, "the node that it may not delete")
        look.set_acl(path_of("n"), (("cdrwa", "world", "anyone"),))
        client.do("close")
        check_empty(here)
        other.open(here.url())
        check(other.acquire("n", wait_ms=20000).fence > fence, "fences rise")


@case
def a_server_that_wants_sasl_is_told(world):
    login = world.write("login", "Server {\n"
                        " org.apache.zookeeper.server.auth.DigestLoginModule required\n"
                        ' user_app="x";\n};\n')
    os.chmod(world.folder, 0o755)  # the server is another user
    config = {"sessionRequireClientSASLAuth": "true",
              "authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}
    with setting(world, config=config, java={"java.security.auth.login.config": login}) as (
            here, client):
        client.open(here.url(), "EDENIED", "SASL", connect_ms=3000)


@case
def a_server_that_wants_everybody_to_name_himself(world):
    config = {"enforce.auth.enabled": "true", "enforce.auth.schemes": "digest"}
    with setting(world, 2, config=config) as (here, named, nobody):
        named.open(here.url(who=WHO))
        named.acquire("n")
        nobody.open(here.url(), "EDENIED", connect_ms=3000)


# --- where locks lie ---


@case
def a_chroot_is_made_and_is_a_world_of_its_own(world):
    for recipe in RECIPES:
        with setting(world, 3) as (here, client, same, outside):
            client.open(here.url(chroot="/app/one", recipe=recipe))
            client.acquire("n")
            same.open(here.url(chroot="/app/one/", recipe=recipe))
            same.acquire("n", "EBUSY", wait_ms=0)
            outside.open(here.url(recipe=recipe))
            outside.acquire("n", wait_ms=0)
            look = here.look()
            check_equal(look.children("/app/one" + ROOT), ["n"], "locks of the chroot")
            check_equal(look.children(ROOT), ["n"], "locks outside")
            check_equal(client.do("list *").text, "1", "those who are listed")
            client.release()
            outside.release()
            check_empty(here)


@case
def a_prefix_is_where_locks_lie(world):
    with setting(world, 3) as (here, deep, root, none):
        deep.open(here.url(prefix="/a/b/"))
        deep.acquire("n")
        root.open(here.url(prefix="/"))
        root.acquire("n", wait_ms=0)
        check_equal(here.look().children("/a/b"), ["n"], "locks under the prefix")
        check("n" in here.look().children("/"), "a lock at the root")
        none.open(here.url(prefix="a//b"), "EURL", "it has an empty part")


@case
def what_is_no_option_or_no_duration_is_named(world):
    with setting(world, 4) as (here, unknown, tick, layout, node):
        unknown.open(here.url(table="x"), "EURL", "there is no option 'table' here")
        tick.open(here.url(tick="soon"), "EURL", "tick='soon' is no duration")
        layout.open(here.url(layout="other"), "EURL", "layout='other' is none of")
        node.open(here.url(layout="kazoo", recipe="node"), "EURL", "layout= is of")


# --- lists of servers ---


@case
def dead_servers_of_a_list_are_passed_over(world):
    with setting(world, 6) as (here, *clients):
        dead = [servers.dead_address() for _ in range(3)]
        alive = f"127.0.0.1:{here.store.port}"
        for client in clients:
            client.open(here.store.url(at=dead[:2] + [alive] + dead[2:]))
            client.acquire("n")
            client.release()
        check_run(world, UNREACHABLE, ["Connection refused"], here.store.url(at=dead))


@case
def a_silent_server_of_a_list_is_passed_over(world):
    with setting(world, 4) as (here, *clients), setting(world, 0) as (silent,):
        silent.store.freeze()
        for client in clients:
            client.open(here.store.url(at=[f"127.0.0.1:{silent.store.port}",
                                           f"127.0.0.1:{here.store.port}"]), connect_ms=20000)
            client.acquire("n")
            client.release()


@case
def without_a_majority_nobody_comes_in(world):
    with three(world, 2) as (here, client, patient):
        for server in here.servers[:2]:
            server.kill()
        client.open(here.url(), "EUNREACHABLE", connect_ms=3000)
        check_run(world, UNREACHABLE, [], here.url())
        patient.send(f"open 60000 0 {here.url()}")
        here.store.start()
        check(patient.hear().startswith("0"), "the open that waited")
        patient.acquire("n")
        patient.release()


@case
def one_alone_and_three_promise_what_they_keep(world):
    kept = {"fence", "fair", "wakeup", "shared", "durable", "crash"}
    with setting(world, 3) as (here, client, node, demanding):
        client.open(here.url())
        check_equal(client.promises(), kept, "promises of one alone")
        node.open(here.url(recipe="node"))
        check_equal(node.promises(), kept - {"fair", "shared", "wakeup"}, "promises of the node")
        demanding.open(here.url(), "EPROMISE", "the server is alone", require=("failover",))
        check_run(world, CONFIG, ["the server is alone"], here.url(), "--require", "failover")
    with three(world, 1) as (here, client):
        client.open(here.url(), require=("failover",))
        check_equal(client.promises(), kept | {"failover"}, "promises of three")
