// Package serve is the program spore-logs-store: it takes what nodes bring by the node's API (package take), keeps it
// in a queue on disk (package spool), and has each consumer take it from there, such as VictoriaLogs (package feed).
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"spore/agent/logs/spool"
	"spore/agent/logs/take"
	"spore/services/logs/store"
	"spore/storage/atomicfile"
)

const (
	// queueDir is the queue in the program's data.
	queueDir = "queue"
	// floor is what stays free on the queue's disk, in bytes. Files of receivers leave that many times it free: more
	// than VictoriaLogs does (512 MiB), so that it is not they that fill its disk.
	floor, fileFloors = 256 << 20, 3
	// tellEvery is how often counts are written.
	tellEvery = 15 * time.Second
	// endBound is how long batches that are being taken have at the end.
	endBound = 5 * time.Second
	// headerBound is for the header of a request, idleBound for a connection that nothing comes by.
	headerBound, idleBound = 10 * time.Second, time.Minute
	// requestBound is for a whole request and its answer.
	requestBound = 2 * time.Minute
	maxHeader    = 16 << 10
)

// Options are what the program is given.
type Options struct {
	store.Config
	// Socket is where the node's API hands over batches; Metrics is the file of the counts; Data is the program's folder.
	Socket, Metrics, Data string
	// Ready is called when it answers.
	Ready func()
	// Say is told what goes wrong.
	Say func(string)
	Now func() time.Time
	// Floor is what stays free on the queue's disk, in bytes; 0 is the usual.
	Floor int64
}

// Run serves until the context ends, or until it cannot go on.
func Run(ctx context.Context, o Options) error {
	if o.Floor == 0 {
		o.Floor = floor
	}
	all := consumers(o)
	var names []spool.Consumer
	for _, c := range all {
		names = append(names, c.Consumer)
	}
	queue, err := spool.Open(spool.Options{
		Dir: filepath.Join(o.Data, queueDir), Bound: int64(o.Queue), Floor: o.Floor, Consumers: names, Say: o.Say, Now: o.Now,
	})
	if err != nil {
		return err
	}
	defer queue.Close()
	taker, err := take.New(take.Options{
		Queue: queue, Cluster: o.Cluster, Roles: o.Roles, Days: o.Days, Say: o.Say, Now: o.Now,
	})
	if err != nil {
		return err
	}
	l, err := listen(o.Socket)
	if err != nil {
		return err
	}

	running, stop := context.WithCancelCause(ctx)
	var parts sync.WaitGroup
	defer parts.Wait()
	defer stop(nil)
	var metrics []func() []byte
	for _, c := range all {
		reader, err := queue.Reader(c.Name)
		if err != nil {
			return err
		}
		run, tell, err := c.begin(reader)
		if err != nil {
			return fmt.Errorf("give to %s: %w", c.Name, err)
		}
		metrics = append(metrics, tell)
		parts.Go(func() {
			defer reader.Close()
			if err := run(running); running.Err() == nil {
				stop(fmt.Errorf("%s: %w", c.Name, err))
			}
		})
	}
	parts.Go(func() {
		told := append([]func() []byte{taker.Metrics, func() []byte { return queueMetrics(queue, names) }}, metrics...)
		tell(running, o, told)
	})
	server := &http.Server{
		Handler: taker, ReadHeaderTimeout: headerBound, ReadTimeout: requestBound, WriteTimeout: requestBound,
		IdleTimeout: idleBound, MaxHeaderBytes: maxHeader, ErrorLog: log.New(io.Discard, "", 0),
	}
	parts.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			stop(fmt.Errorf("answer the node's API: %w", err))
		}
	})
	if o.Ready != nil {
		o.Ready()
	}
	<-running.Done()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endBound)
	defer cancel()
	if server.Shutdown(end) != nil {
		_ = server.Close()
	}
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(running)
}

// listen makes the socket anew. Its folder is for the group of the node's API alone.
func listen(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("make the socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("make the socket: %w", err)
	}
	if err := os.Chmod(path, 0o660); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("make the socket: %w", err)
	}
	return l, nil
}

// tell writes the counts now and then, until the context ends.
func tell(ctx context.Context, o Options, metrics []func() []byte) {
	beat := time.NewTicker(tellEvery)
	defer beat.Stop()
	for {
		var text []byte
		for _, m := range metrics {
			text = append(text, m()...)
		}
		if err := atomicfile.Replace(o.Metrics, text, 0o644, atomicfile.Unsynced); err != nil {
			o.Say("tell the counts: " + err.Error())
		}
		select {
		case <-beat.C:
		case <-ctx.Done():
			return
		}
	}
}

// queueMetrics are those of the queue.
func queueMetrics(queue *spool.Spool, of []spool.Consumer) []byte {
	u := queue.Usage()
	var out []byte
	one := func(name, kind, help string, value any) {
		out = fmt.Appendf(out, "# HELP spore_logs_%s %s\n# TYPE spore_logs_%s %s\n", name, help, name, kind)
		if value != nil {
			out = fmt.Appendf(out, "spore_logs_%s %v\n", name, value)
		}
	}
	one("queue_bytes", "gauge", "What the queue of the store has on disk.", u.Bytes)
	one("queue_bound_bytes", "gauge", "What it may have.", u.Bound)
	one("queue_corrupt_bytes_total", "counter", "Bytes of the queue that could not be read.", u.Corrupt)
	each := func(name, kind, help string, value func(spool.Lag) any) {
		one(name, kind, help, nil)
		for _, c := range of {
			out = fmt.Appendf(out, "spore_logs_%s{consumer=%q} %v\n", name, c.Name, value(queue.Lag(c.Name)))
		}
	}
	each("queue_behind_bytes", "gauge", "What a consumer of the queue has before it.",
		func(l spool.Lag) any { return l.Bytes })
	each("queue_behind_seconds", "gauge",
		"How long the oldest entry has waited for a consumer; VictoriaLogs is always half a minute behind.",
		func(l spool.Lag) any { return fmt.Sprintf("%.3f", l.Behind.Seconds()) })
	each("queue_dropped_total", "counter", "Entries that a consumer has lost, since the queue was full.",
		func(l spool.Lag) any { return l.Dropped })
	return out
}
