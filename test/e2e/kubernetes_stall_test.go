//go:build e2e

package e2e

import (
	"context"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/test/client"
)

const (
	// stallTime is how long the master's processor stands still: longer than any connection waits for a sign of life.
	stallTime = 2 * time.Minute
	// stallBound is when the API has to answer after that, at the latest.
	stallBound = 2 * time.Minute
	// stallWatches and stallWriters ask all the time.
	stallWatches, stallWriters = 30, 3
	// stallWarmUp is how long they do before.
	stallWarmUp = 20 * time.Second
)

// comesBack has the master's processor stand still under load. QEMU is stopped and not its machine: the guest's clock goes
// on meanwhile, so that all that was to happen in the two minutes is late at once.
func (l *lab) comesBack(t *testing.T) {
	url := l.serving(`Starting to serve on (127\.0\.0\.1:\d+)`, "proxy", "--port=0")
	api := client.KubernetesAPI{URL: url, HTTP: http.DefaultClient}
	stop := api.Load("lab", stallWatches, stallWriters)
	defer stop()
	time.Sleep(stallWarmUp)
	require.NoError(t, syscall.Kill(l.master.PID(), syscall.SIGSTOP))
	l.storage.hasProcessors()
	time.Sleep(stallTime)
	require.NoError(t, syscall.Kill(l.master.PID(), syscall.SIGCONT))
	began, cpu := time.Now(), l.master.CPU()
	l.within(stallBound, "the API answers again", func() error {
		ctx, cancel := context.WithDeadline(context.Background(), began.Add(stallBound))
		defer cancel()
		return api.Answers(ctx, "lab")
	})
	t.Logf("answered %.0f s and %.0f CPU-s after a stall of %s",
		time.Since(began).Seconds(), (l.master.CPU() - cpu).Seconds(), stallTime)
	stop()
	l.ready()
}
