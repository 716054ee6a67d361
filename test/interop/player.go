// Takes the lock of etcd's own Go library again and again beside other programs:
//
//	player SERVER NAME DIRECTORY SECONDS READERS
//
// What it does inside, and what it writes down, is written in player.c. Its fence is made as ours
// are, from the revision at which its key was made. It has no shared mode: READERS is passed over.

package main

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
)

const (
	fenceStep = 256
	ttlS      = 5
	inside    = 300 * time.Microsecond
	outsideMs = 10
)

type player struct {
	client    *clientv3.Client
	mutex     *concurrency.Mutex
	directory string
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "player.go:", err)
		os.Exit(1)
	}
}

func (p *player) path(name string) string {
	return filepath.Join(p.directory, name)
}

func create(path string) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0600)
	must(err)
	must(file.Close())
}

func (p *player) addOne() {
	create(p.path("inside"))
	text, err := os.ReadFile(p.path("count"))
	must(err)
	number, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must(err)
	time.Sleep(inside)
	must(os.WriteFile(p.path("count"), []byte(fmt.Sprintln(number+1)), 0600))
	must(os.Remove(p.path("inside")))
}

func (p *player) takeNote(what string, fence int64) {
	file, err := os.OpenFile(p.path("turns"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0600)
	must(err)
	_, err = fmt.Fprintf(file, "%s w %d theirs-%d\n", what, fence, os.Getpid())
	must(err)
	must(file.Close())
}

func (p *player) takeTurn() {
	must(p.mutex.Lock(context.Background()))
	found, err := p.client.Get(context.Background(), p.mutex.Key())
	must(err)
	if len(found.Kvs) != 1 {
		must(fmt.Errorf("%s is not there, though it is locked", p.mutex.Key()))
	}
	fence := found.Kvs[0].CreateRevision * fenceStep
	p.takeNote("enter", fence)
	p.addOne()
	p.takeNote("leave", fence)
	must(p.mutex.Unlock(context.Background()))
}

func (p *player) waitForAll() {
	create(p.path(fmt.Sprintf("ready.%d", os.Getpid())))
	for {
		if _, err := os.Stat(p.path("go")); err == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func main() {
	if len(os.Args) != 6 {
		must(fmt.Errorf("player SERVER NAME DIRECTORY SECONDS READERS"))
	}
	seconds, err := strconv.ParseFloat(os.Args[4], 64)
	must(err)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{os.Args[1]}})
	must(err)
	session, err := concurrency.NewSession(client, concurrency.WithTTL(ttlS))
	must(err)
	p := &player{client, concurrency.NewMutex(session, os.Args[2]), os.Args[3]}
	rand.Seed(int64(os.Getpid()))
	p.waitForAll()

	times := 0
	for end := time.Now().Add(time.Duration(seconds * 1e9)); time.Now().Before(end); times++ {
		p.takeTurn()
		time.Sleep(time.Duration(rand.Float64() * outsideMs * 1e6))
	}
	must(session.Close())
	must(client.Close())
	fmt.Println(times)
}
