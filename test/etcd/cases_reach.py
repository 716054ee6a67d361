"""How the servers are reached: TLS, users and passwords, rights, lists of servers; full ones."""

import os
import time

import servers
from client import Answer, check_run, run
from harness import case, check, check_equal, wait_until
from cases_cluster import divided
from setting import ROOT, check_empty, check_nothing, line, setting, three

SECRET = "s3cret with blanks/and@delimiters"
AUTH = ("app", SECRET, ROOT)
DENIED, CONFIG, UNREACHABLE = 77, 78, 69


def other_authority(here):
    return servers.Certificates(os.path.join(here.store.place.folder, "other"))


# --- TLS ---


@case
def tls_is_spoken_with_a_server_that_the_ca_vouches_for(world):
    with setting(world, tls=True) as (here, client):
        client.open(here.url())
        client.acquire("n")
        check_equal(len(line(here)), 1, "keys")
        client.release()
        check_run(world, 0, [], here.store.url(at=[f"localhost:{here.store.port}"]))
        check_nothing(here, client)


@case
def a_server_that_the_ca_does_not_vouch_for_is_refused(world):
    with setting(world, 2, tls=True) as (here, first, second):
        untrusted = "the server's certificate is by nobody that is trusted (ca)"
        plain = f"etcds://127.0.0.1:{here.store.port}"
        first.open(here.url(ca=other_authority(here).ca), "EDENIED", untrusted)
        second.open(plain, "EDENIED", untrusted)
        check_run(world, DENIED, [untrusted], plain)


@case
def a_server_of_another_name_is_refused(world):
    with setting(world, tls=True) as (here, client):
        here.store.kill()
        here.store.options["config"] = {
            "listen-client-urls": f"https://0.0.0.0:{here.store.port},"
                                  f"http://127.0.0.1:{here.store.plain_port}"}
        here.store.start()
        client.open(here.store.url(at=[f"127.0.0.2:{here.store.port}"]), "EDENIED",
                    "the server's certificate is not for '127.0.0.2'")


@case
def a_client_certificate_is_shown_and_must_be_good(world):
    with setting(world, 3, tls="client") as (here, good, missing, strange):
        made, other = here.store.place.certificates, other_authority(here)
        plain = f"etcds://127.0.0.1:{here.store.port}?ca={made.ca}"
        good.open(here.url())
        good.acquire("n")
        missing.open(plain, "EDENIED", connect_ms=3000)
        strange.open(f"{plain}&cert={other.client}&cert_key={other.key('client')}", "EDENIED",
                     connect_ms=3000)
        good.release()


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
        client.open(f"etcds://127.0.0.1:{here.store.port}", "EUNREACHABLE", "TLS",
                    connect_ms=3000)


@case
def plain_text_to_a_tls_port_ends_with_a_hint(world):
    with setting(world, tls=True) as (here, client):
        client.open(f"etcd://127.0.0.1:{here.store.port}", "EUNREACHABLE", "TLS (etcds://)",
                    connect_ms=3000)


# --- users and rights ---


@case
def who_names_himself_is_let_in_and_others_are_not(world):
    with setting(world, 4, auth=AUTH) as (here, client, wrong, nobody, stranger):
        client.open(here.url())
        client.acquire("n")
        check_equal(len(line(here)), 1, "keys")
        wrong.open(here.url(who="app:tell-nobody"), "EDENIED", "invalid user ID or password",
                   connect_ms=3000)
        stranger.open(here.url(who="stranger:x"), "EDENIED", connect_ms=3000)
        answer = Answer(nobody.ask(f"open 3000 0 {here.url(who='')}"))
        if answer.status == "OK":
            answer = Answer(nobody.ask("acquire 30000 0 n"))
        check_equal(answer.status, "EDENIED", "who has no name")
        client.release()
        result = run(world, here.url(who="app:tell-nobody"), "-n")
        check_equal(result.status, DENIED, "status of run")
        check("tell-nobody" not in result.err + result.out, "the password is told to nobody")
        check_nothing(here, client)


@case
def the_password_may_come_from_the_environment_or_a_file(world):
    with setting(world, 0, auth=AUTH) as (here,):
        url = here.url(who="app")
        check_run(world, 0, [], url, environment={"HOLDFAST_PASSWORD": SECRET})
        check_run(world, DENIED, [], url, environment={"HOLDFAST_PASSWORD": "x"})
        path = world.write("password", SECRET + "\n")
        os.chmod(path, 0o600)
        check_run(world, 0, [], here.url(who="app", password_file=path))


@case
def a_name_where_nobody_has_one_is_told(world):
    with setting(world) as (here, client):
        client.open(here.url(who="app:x"), "EDENIED", "authentication is not enabled",
                    connect_ms=3000)


@case
def a_place_where_we_may_not_write_is_denied(world):
    with setting(world, 3, auth=AUTH) as (here, client, lister, good):
        url = here.url(prefix="elsewhere/")
        for one, order in ((client, "acquire 30000 0 n"), (lister, "list *")):
            answer = Answer(one.ask(f"open 3000 0 {url}"))
            if answer.status == "OK":
                answer = Answer(one.ask(order))
            check(answer.status == "EDENIED" and "permission denied" in answer.text, f"{answer}")
        check_run(world, DENIED, ["permission denied"], url)
        good.open(here.url(prefix=ROOT + "deeper/"))
        good.acquire("n")
        good.release()


@case
def a_right_that_is_taken_away_from_a_holder_is_told(world):
    with setting(world, 1, auth=AUTH) as (here, client):
        client.open(here.url())
        client.acquire("n")
        here.store.call("auth/user/revoke", name="app", role="lockers")
        answer = Answer(client.ask("release"))
        check(answer.status in ("EUNKNOWN", "EDENIED"), f"{answer}")
        check("permission denied" in answer.text, f"{answer}")
        here.store.call("auth/user/grant", user="app", role="lockers")
        client.do("close")
        check_empty(here)


@case
def a_token_that_has_run_out_is_fetched_again(world):
    with setting(world, 2, auth=AUTH, token_s=1) as (here, idle, holder):
        here.open(idle, holder)
        idle.acquire("a")
        idle.release()
        holder.acquire("n", lease_ms=9000)
        for _ in range(2):
            time.sleep(4)
            check_equal(holder.ask("valid"), "1", "valid")
            idle.acquire("a", wait_ms=20000)
            idle.release()
        idle.acquire("n", "EBUSY", wait_ms=0)
        holder.release()
        check_nothing(here, idle, holder)


@case
def a_restart_that_forgets_the_tokens_costs_nobody_the_lock(world):
    with setting(world, 2, auth=AUTH) as (here, holder, waiter):
        here.open(holder, waiter)
        holder.acquire("n")
        here.stand(waiter)
        here.store.kill()
        here.store.start()
        check_equal(holder.ask("valid"), "1", "valid")
        # A listing is not repeated by itself, and the connection may still be the one that died.
        wait_until(lambda: Answer(holder.ask("list *")).status == "OK", "the list is told")
        holder.release()
        waiter.do("wait -1")
        waiter.release()
        check_nothing(here, holder, waiter)


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
        wait_until(lambda: not here.servers[2].mode(), "the last one knows")
        client.open(here.url(), "EUNREACHABLE", connect_ms=3000)
        check_run(world, UNREACHABLE, [], here.url())
        patient.send(f"open 60000 0 {here.url()}")
        here.store.start()
        check(patient.hear().startswith("0"), "the open that waited")
        patient.acquire("n")
        patient.release()


@case
def a_member_that_has_lost_the_majority_and_does_not_know_it_lets_nobody_in(world):
    """It takes itself for the leader until an election would have been due."""
    slow = {"heartbeat-interval": 100, "election-timeout": 5000}
    with three(world, 2, config=slow) as (here, client, patient):
        leader = here.store.leader()
        alone = here.store.url(at=[f"127.0.0.1:{leader.port}"])
        others = [server for server in here.servers if server is not leader]
        for server in others:
            server.freeze()
        client.open(alone, "EUNREACHABLE", connect_ms=2000)
        check_equal(leader.mode(), "leader", "whom it takes itself for")
        for server in others:
            server.thaw()
        patient.open(alone)
        patient.acquire("n")
        patient.release()


@case
def who_comes_to_a_member_that_is_cut_off_is_sent_on(world):
    """As above, of one alone: the others have the majority."""
    slow = {"heartbeat-interval": 100, "election-timeout": 20000}
    with divided(world, 4, config=slow) as (net, here, *clients):
        follower = here.store.followers()[0]
        net.cut_off(here, follower)
        for client in clients:
            client.open(here.url())
            client.acquire("n", wait_ms=5000)
            client.release()
        check_equal(follower.mode(), "follower", "what it takes itself for")
        net.mend()


@case
def one_alone_and_three_promise_what_they_keep(world):
    kept = {"fence", "fair", "wakeup", "shared", "durable", "crash"}
    with setting(world, 2) as (here, client, demanding):
        client.open(here.url())
        check_equal(client.promises(), kept, "promises of one alone")
        demanding.open(here.url(), "EPROMISE", "it is one server alone", require=("failover",))
        check_run(world, CONFIG, ["it is one server alone"], here.url(), "--require", "failover")
    with three(world, 1) as (here, client):
        client.open(here.url(), require=("failover",))
        check_equal(client.promises(), kept | {"failover"}, "promises of three")


# --- full ones ---


@case
def a_full_server_is_told_and_serves_again_when_there_is_room(world):
    with setting(world, 2, config={"quota-backend-bytes": 1 << 20}) as (here, client, holder):
        here.open(client, holder)
        holder.acquire("held")
        filled = 0
        try:
            while filled < 100:
                here.store.put(f"big{filled}", "x" * 100000)
                filled += 1
        except servers.ServerError as trouble:
            check("space exceeded" in str(trouble), f"{trouble}")
        answer = Answer(client.ask("acquire 30000 2000 n"))
        check(answer.status == "ELIMIT" and "space exceeded" in answer.text, f"{answer}")
        check_equal(holder.ask("valid"), "1", "who holds")
        holder.release()
        for number in range(filled + 1):  # what was refused as one too many may be there
            here.store.delete(f"big{number}")
        here.store.call("kv/compaction", revision=here.store.revision(), physical=True)
        here.store.call("maintenance/defragment")
        for alarm in here.store.call("maintenance/alarm", action="GET")["alarms"]:
            here.store.call("maintenance/alarm", action="DEACTIVATE", **alarm)
        wait_until(lambda: Answer(client.ask("acquire 30000 2000 n")).status == "OK", "room")
        client.release()
        check_nothing(here, client, holder)
