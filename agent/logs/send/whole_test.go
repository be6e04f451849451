package send

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/logs/spool"
	"spore/agent/logs/take"
	"spore/test/chance"
	"spore/wire/nodeapi"
)

// takerOf is the program of a store, with its queue on the disk.
func takerOf(t *testing.T, dir string) (*take.Taker, *spool.Spool) {
	t.Helper()
	s, err := spool.Open(spool.Options{
		Dir: dir, Bound: 1 << 30, Consumers: []spool.Consumer{{Name: "store", Keeps: true}}, Say: func(s string) { t.Log(s) }, Now: time.Now,
	})
	require.NoError(t, err)
	h, err := take.New(take.Options{
		Queue: s, Cluster: "plant", Roles: map[string]string{"node-1": "worker"}, Days: 30, Say: func(s string) { t.Log(s) }, Now: time.Now,
	})
	require.NoError(t, err)
	return h, s
}

// linesOf are all messages that a store has in its queue, each as often as it is there: some at least.
func linesOf(t *testing.T, s *spool.Spool, some int) (messages []string) {
	t.Helper()
	r, err := s.Reader("store")
	require.NoError(t, err)
	defer r.Close()
	for {
		wait := time.Minute
		if len(messages) >= some { // There are no more of them, or they would come at once.
			wait = 300 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		b, err := r.Next(ctx)
		cancel()
		if err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
			return messages
		}
		for line := range bytes.Lines(b.Lines) {
			var e map[string]string
			require.NoError(t, json.Unmarshal(line, &e))
			require.Equal(t, "node-1", e["node"])
			require.Equal(t, Journal, e[SourceField])
			messages = append(messages, e["_msg"])
		}
	}
}

// A store that dies at random, with a sender that dies at random, has each entry once.
func TestAStoreHasEachEntryOnce(t *testing.T) {
	seed := chance.Seed(t)
	r := rand.New(rand.NewPCG(seed, 28))
	ca := authority(t)
	front := newStore(t, ca)
	dir := t.TempDir()
	var mu sync.Mutex
	taker, queue := takerOf(t, dir)
	// cut is how often an answer does not come back.
	cut := r.IntN(4) + 2
	count := 0
	front.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		q.Header.Set(nodeapi.EntriesOf, "node-1")
		if count++; count%cut == 0 {
			taker.ServeHTTP(httpNobody{http.Header{}}, q)
			panic(http.ErrAbortHandler)
		}
		taker.ServeHTTP(w, q)
	})
	n := newNode(t, ca, front)
	n.start()
	var sent atomic.Int64
	n.uploads(&uploader{node: n, store: 1, saved: func(state int) { sent.Store(int64(state)) }})
	const last = 2000
	for i := 0; i < last; i += 100 {
		n.write(i+1, i+100)
		time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
		switch r.IntN(6) {
		case 0:
			n.end()
			if r.IntN(2) == 0 {
				require.NoError(t, os.RemoveAll(filepath.Join(n.dir, "state")))
			}
			n.start()
		case 1:
			mu.Lock()
			require.NoError(t, queue.Close())
			taker, queue = takerOf(t, dir)
			mu.Unlock()
		}
	}
	require.Eventually(t, func() bool { return sent.Load() == last }, 30*time.Second, 5*time.Millisecond)
	n.end()
	mu.Lock()
	defer mu.Unlock()
	got := linesOf(t, queue, last)
	require.Len(t, got, last)
	for i, text := range got {
		require.Equal(t, fmt.Sprintf("message %d", i+1), text)
	}
	require.NoError(t, queue.Close())
}

// httpNobody is an answer that goes nowhere.
type httpNobody struct{ header http.Header }

func (n httpNobody) Header() http.Header       { return n.header }
func (httpNobody) Write(p []byte) (int, error) { return len(p), nil }
func (httpNobody) WriteHeader(int)             {}
