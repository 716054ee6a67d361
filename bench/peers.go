// How fast is concurrency.Mutex of etcd's own Go library? peers WORKLOAD SECONDS PORT
//
// W1 is one goroutine on one lock, W3 eight goroutines of one process on one lock, W4 four
// processes on one lock; each has a session of its own, for the lock tells them apart by that. W5:
// of two processes one holds the lock and the other waits for it; after 10 to 30 ms the first lets
// go, and the time is taken until the other has it; then they change places. It works uncounted for
// a while, and only then for SECONDS. Prints one JSON object, with the fields of
// `holdfast bench --json`.
//
// The processes of W4 and W5 are this program again (`peers work ...`, `peers hand ...`), and are
// spoken to by pipes. All times are of CLOCK_MONOTONIC, which is one for all of them.

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand"
	"os"
	"os/exec"
	"sort"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
	"golang.org/x/sys/unix"
)

const (
	ttlS        = 30
	warmSMax    = 1.0
	limitS      = 60.0
	settleMsMin = 10
	settleMsMax = 30
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func nowNs() int64 {
	var now unix.Timespec
	must(unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	return now.Nano()
}

func dial(port string) *clientv3.Client {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   []string{"127.0.0.1:" + port},
		DialTimeout: time.Duration(limitS) * time.Second,
	})
	must(err)
	return client
}

func newMutex(client *clientv3.Client, name string) (*concurrency.Session, *concurrency.Mutex) {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(ttlS))
	must(err)
	return session, concurrency.NewMutex(session, name)
}

// One who takes the lock until the end: how long each time took, of those that count.
func contend(mutex *concurrency.Mutex, countedNs, endNs int64, contended bool) []int64 {
	var samples []int64
	for nowNs() < endNs {
		begunNs := nowNs()
		must(mutex.Lock(context.Background()))
		takenNs := nowNs() - begunNs
		must(mutex.Unlock(context.Background()))
		if !contended {
			takenNs = nowNs() - begunNs
		}
		if begunNs >= countedNs && begunNs < endNs {
			samples = append(samples, takenNs)
		}
	}
	return samples
}

func contendInThreads(port, name string, count int, countedNs, endNs int64) [][]int64 {
	client := dial(port)
	answers := make(chan []int64)
	for i := 0; i < count; i++ {
		go func() {
			session, mutex := newMutex(client, name)
			samples := contend(mutex, countedNs, endNs, count > 1)
			must(session.Close())
			answers <- samples
		}()
	}
	var all [][]int64
	for i := 0; i < count; i++ {
		all = append(all, <-answers)
	}
	must(client.Close())
	return all
}

// Another process of this program, and the pipes to it.
type helper struct {
	command *exec.Cmd
	input   io.WriteCloser
	output  *bufio.Reader
}

func start(words ...string) *helper {
	command := exec.Command(os.Args[0], words...)
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	must(err)
	output, err := command.StdoutPipe()
	must(err)
	must(command.Start())
	return &helper{command, input, bufio.NewReader(output)}
}

func (h *helper) tell(word string) {
	_, err := fmt.Fprintln(h.input, word)
	must(err)
}

func (h *helper) hear() string {
	line, err := h.output.ReadString('\n')
	must(err)
	return strings.TrimSpace(line)
}

func (h *helper) hearNumber() int64 {
	number, err := strconv.ParseInt(h.hear(), 10, 64)
	must(err)
	return number
}

func (h *helper) end() {
	must(h.input.Close())
	must(h.command.Wait())
}

// W4: one process. It says when it is connected, and begins when it is told how long.
func work(port, name string) {
	client := dial(port)
	session, mutex := newMutex(client, name)
	var countedNs, endNs int64
	fmt.Println("ready")
	_, err := fmt.Scan(&countedNs, &endNs)
	must(err)
	samples := contend(mutex, countedNs, endNs, true)
	must(session.Close())
	for _, sample := range samples {
		fmt.Println(sample)
	}
	fmt.Println(-1)
}

func contendInProcesses(port, name string, count int, seconds float64) [][]int64 {
	var helpers []*helper
	for i := 0; i < count; i++ {
		helpers = append(helpers, start("work", port, name))
	}
	for _, one := range helpers {
		one.hear()
	}
	countedNs, endNs := window(seconds)
	for _, one := range helpers {
		one.tell(fmt.Sprint(countedNs, endNs))
	}
	var all [][]int64
	for _, one := range helpers {
		var samples []int64
		for sample := one.hearNumber(); sample >= 0; sample = one.hearNumber() {
			samples = append(samples, sample)
		}
		one.end()
		all = append(all, samples)
	}
	return all
}

// W5: one process. Each line is an order; the answer is when it was obeyed.
func hand(port, name string) {
	client := dial(port)
	session, mutex := newMutex(client, name)
	fmt.Println("ready")
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		if orders.Text() == "lock" {
			must(mutex.Lock(context.Background()))
			fmt.Println(nowNs())
		} else {
			fmt.Println(nowNs())
			must(mutex.Unlock(context.Background()))
		}
	}
	must(session.Close())
}

func handOver(port, name string, seconds float64) [][]int64 {
	holder, waiter := start("hand", port, name), start("hand", port, name)
	holder.hear()
	waiter.hear()
	holder.tell("lock")
	holder.hear()
	var samples []int64
	countedNs, endNs := window(seconds)
	for nowNs() < endNs {
		waiter.tell("lock")
		settleMs := settleMsMin + rand.Float64()*(settleMsMax-settleMsMin)
		time.Sleep(time.Duration(settleMs * float64(time.Millisecond)))
		holder.tell("unlock")
		releasedNs := holder.hearNumber()
		takenNs := waiter.hearNumber() - releasedNs
		if releasedNs >= countedNs {
			samples = append(samples, takenNs)
		}
		holder, waiter = waiter, holder
	}
	holder.tell("unlock")
	holder.hear()
	holder.end()
	waiter.end()
	return [][]int64{samples}
}

func window(seconds float64) (int64, int64) {
	warmS := seconds
	if warmS > warmSMax {
		warmS = warmSMax
	}
	countedNs := nowNs() + int64(warmS*1e9)
	return countedNs, countedNs + int64(seconds*1e9)
}

func measure(workload, port string, seconds float64) [][]int64 {
	name := fmt.Sprintf("bench-go/%d", os.Getpid())
	switch workload {
	case "W1", "W3":
		countedNs, endNs := window(seconds)
		return contendInThreads(port, name, map[string]int{"W1": 1, "W3": 8}[workload], countedNs,
			endNs)
	case "W4":
		return contendInProcesses(port, name, 4, seconds)
	case "W5":
		return handOver(port, name, seconds)
	}
	must(fmt.Errorf("no workload '%s' here", workload))
	return nil
}

func show(all [][]int64, seconds float64) bool {
	var samples []int64
	var counts []int
	for _, one := range all {
		samples = append(samples, one...)
		counts = append(counts, len(one))
	}
	if len(samples) == 0 {
		return false
	}
	sort.Slice(samples, func(i, j int) bool { return samples[i] < samples[j] })
	sort.Ints(counts)
	sum := float64(len(samples))
	fmt.Printf("{\"cycles_per_s\": %f, \"p50_us\": %f, \"p99_us\": %f, \"share_min\": %f, "+
		"\"share_max\": %f}\n", sum/seconds, float64(samples[len(samples)/2])/1e3,
		float64(samples[len(samples)*99/100])/1e3, float64(counts[0])/sum,
		float64(counts[len(counts)-1])/sum)
	return true
}

func main() {
	if len(os.Args) != 4 {
		must(fmt.Errorf("peers WORKLOAD SECONDS PORT"))
	}
	rand.Seed(time.Now().UnixNano())
	switch os.Args[1] {
	case "work":
		work(os.Args[2], os.Args[3])
		return
	case "hand":
		hand(os.Args[2], os.Args[3])
		return
	}
	seconds, err := strconv.ParseFloat(os.Args[2], 64)
	must(err)
	// In a short time perhaps nobody gets in.
	for !show(measure(os.Args[1], os.Args[3], seconds), seconds) {
		seconds *= 2
		if seconds > limitS {
			must(fmt.Errorf("nobody got in"))
		}
	}
}
