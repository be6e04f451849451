//go:build e2e

package services

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"spore/agent/netnstest"
	"spore/services/kubernetes/vip/lock"
)

func TestALockInEtcd(t *testing.T) {
	netnstest.Run(t, func(t *testing.T) {
		l := newEndpoints(t, "10.77.0.0/24")
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		one := &lock.Lock{Client: l.masters[0].etcdClient(), Key: endpointKey, Owner: "master-01", Lifetime: 3 * time.Second}
		defer one.Client.Close()
		two := &lock.Lock{Client: l.masters[1].etcdClient(), Key: endpointKey, Owner: "master-02", Lifetime: 3 * time.Second}
		defer two.Client.Close()
		take := func(t *testing.T) *lock.Held {
			h, err := one.Acquire(ctx)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, h.Release(ctx)) })
			return h
		}

		t.Run("one has it", func(t *testing.T) {
			before := lock.Now()
			h := take(t)
			require.GreaterOrEqual(t, h.Until(), before+one.Lifetime)
			require.LessOrEqual(t, h.Until(), lock.Now()+one.Lifetime)
			_, err := two.Acquire(ctx)
			require.ErrorIs(t, err, lock.ErrLost)
			leases, err := two.Client.Leases(ctx)
			require.NoError(t, err)
			require.Len(t, leases.Leases, 1, "who lost leaves no lease")
			s, err := two.Look(ctx)
			require.NoError(t, err)
			require.Equal(t, "master-01", s.Holder)
			require.NoError(t, two.Forget(ctx, s), "another's is left alone")
			require.NoError(t, h.Renew(ctx))
		})
		t.Run("it is renewed", func(t *testing.T) {
			h := take(t)
			for range 4 {
				time.Sleep(time.Second)
				until := h.Until()
				require.NoError(t, h.Renew(ctx))
				require.Greater(t, h.Until(), until)
			}
		})
		t.Run("who waits hears of its end", func(t *testing.T) {
			h := take(t)
			s, err := two.Look(ctx)
			require.NoError(t, err)
			began := time.Now()
			go func() { time.Sleep(300 * time.Millisecond); _ = h.Release(ctx) }()
			require.NoError(t, two.Wait(ctx, s))
			require.Less(t, time.Since(began), 2*time.Second)
			s, err = two.Look(ctx)
			require.NoError(t, err)
			require.Empty(t, s.Holder)
			require.ErrorIs(t, h.Renew(ctx), lock.ErrLost)
		})
		t.Run("without renewal it ends, and not before Until", func(t *testing.T) {
			h := take(t)
			s, err := two.Look(ctx)
			require.NoError(t, err)
			require.NoError(t, two.Wait(ctx, s))
			require.Greater(t, lock.Now(), h.Until())
			t.Logf("etcd ended it %s after Until", (lock.Now() - h.Until()).Round(time.Millisecond))
			require.ErrorIs(t, h.Renew(ctx), lock.ErrLost)
		})
		t.Run("whose key is gone has lost it, though the lease lasts", func(t *testing.T) {
			h := take(t)
			_, err := two.Client.Delete(ctx, endpointKey)
			require.NoError(t, err)
			require.ErrorIs(t, h.Renew(ctx), lock.ErrLost)
			other, err := two.Acquire(ctx)
			require.NoError(t, err)
			require.ErrorIs(t, h.Renew(ctx), lock.ErrLost)
			require.NoError(t, other.Release(ctx))
		})
		t.Run("an owner forgets what its former life had", func(t *testing.T) {
			take(t)
			s, err := one.Look(ctx)
			require.NoError(t, err)
			require.NoError(t, one.Forget(ctx, s))
			require.NoError(t, one.Forget(ctx, s), "twice does no harm")
			_, err = one.Client.Put(ctx, endpointKey, "master-01") // by hand, without a lease
			require.NoError(t, err)
			s, err = one.Look(ctx)
			require.NoError(t, err)
			require.NoError(t, one.Forget(ctx, s))
			s, err = one.Look(ctx)
			require.NoError(t, err)
			require.Empty(t, s.Holder)
		})
		t.Run("an answer of a leader that is none any more is not believed", func(t *testing.T) {
			elect := false
			// The lead moves after the lease was renewed and before the question that takes a majority.
			c, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://127.0.0.1:2379"}, DialOptions: append(l.masters[0].dial(), grpc.WithUnaryInterceptor(
				func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
					if elect && strings.HasSuffix(method, "/Range") {
						l.moveLead(ctx)
					}
					return invoke(ctx, method, req, reply, cc, opts...)
				}))})
			require.NoError(t, err)
			defer c.Close()
			slow := &lock.Lock{Client: c, Key: endpointKey, Owner: "master-01", Lifetime: 20 * time.Second}
			h, err := slow.Acquire(ctx)
			require.NoError(t, err)
			until := h.Until()
			elect = true
			require.ErrorContains(t, h.Renew(ctx), "has elected a leader meanwhile")
			require.Equal(t, until, h.Until())
			elect = false
			require.NoError(t, h.Renew(ctx))
			require.Greater(t, h.Until(), until)
			require.NoError(t, h.Release(ctx))
		})
		t.Run("without a majority nothing is known", func(t *testing.T) {
			h, err := one.Acquire(ctx)
			require.NoError(t, err)
			end(l.masters[1].etcd)
			end(l.masters[2].etcd)
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			err = h.Renew(ctx)
			// gRPC says so in its own words where the end of the stream comes before that of the context.
			require.Regexp(t, "(?i)deadline ?exceeded", err)
			require.NotErrorIs(t, err, lock.ErrLost)
			_, err = one.Look(ctx)
			require.Regexp(t, "(?i)deadline ?exceeded", err)
		})
	})
}

// moveLead has etcd's leader hand over to another member.
func (l *endpoints) moveLead(ctx context.Context) {
	for _, m := range l.masters {
		c := m.etcdClient()
		s, err := c.Status(ctx, "http://127.0.0.1:2379")
		require.NoError(l.t, err)
		if s.Leader != s.Header.MemberId {
			c.Close()
			continue
		}
		list, err := c.MemberList(ctx)
		require.NoError(l.t, err)
		for _, other := range list.Members {
			if other.ID != s.Leader {
				_, err = c.MoveLeader(ctx, other.ID)
				require.NoError(l.t, err)
				c.Close()
				return
			}
		}
	}
	require.FailNow(l.t, "etcd has no leader")
}
