//go:build e2e

package services

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/services/kubernetes"
	"spore/test/client"
)

const (
	// slowTurn and slowRun make the programs those of a slow machine: in each turn of the clock they run for so long
	// and stand still for the rest.
	slowTurn, slowRun = 96 * time.Millisecond, 6 * time.Millisecond
	// stallBound is when the API has to answer again.
	stallBound = 2 * time.Minute
	// stallWatches and stallWriters ask all the time.
	stallWatches, stallWriters = 50, 4
)

// On a slow master under load etcd ends and comes back, so that all connections to it are made again at once.
func TestASlowMasterComesBack(t *testing.T) {
	p := preparedControlPlane(t)
	kubernetes.Of(p.cluster.Shared.Services).SlowMachine = 5
	require.NoError(t, p.Start(context.Background(), everyProgram...))
	t.Cleanup(p.api().Load("default", stallWatches, stallWriters))
	p.slowDown(t)
	require.NoError(t, p.answers(stallBound), "on a slow machine under load")

	p.StopOne("etcd")
	require.NoError(t, p.Start(context.Background(), "etcd"))
	began, before := time.Now(), p.CPU()
	require.NoError(t, p.answers(stallBound), "after etcd was gone")
	t.Logf("answered after %s and %s of CPU", time.Since(began).Round(100*time.Millisecond), p.CPU()-before)
}

// api is that of the control plane, for the administrator.
func (p *controlPlane) api() client.KubernetesAPI {
	user := p.admin()
	user.http.Timeout = 0
	return client.KubernetesAPI{URL: user.server, HTTP: user.http}
}

// answers waits until the API is ready and takes a write.
func (p *controlPlane) answers(within time.Duration) error {
	api := p.api()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for {
		err := api.Answers(ctx, "default")
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the API does not answer within %s: %w", within, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// slowDown has the programs run for a part of the time only, until the end of the test.
func (p *controlPlane) slowDown(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		for ctx.Err() == nil {
			p.Signal(syscall.SIGCONT)
			time.Sleep(slowRun)
			p.Signal(syscall.SIGSTOP)
			time.Sleep(slowTurn - slowRun)
		}
		p.Signal(syscall.SIGCONT)
	})
	t.Cleanup(func() { cancel(); ended.Wait() })
}
