package membership

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestAMemberWithoutPowerHidesNoOther(t *testing.T) {
	var members []*etcdserverpb.Member
	for id, name := range []string{"a", "b", "c", "new"} {
		m := &etcdserverpb.Member{ID: uint64(id + 1), Name: name}
		if name != "new" {
			m.ClientURLs = []string{"https://" + name}
		}
		members = append(members, m)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	shown := ask(ctx, members, 2, 50*time.Millisecond, func(ctx context.Context, url string) (*clientv3.StatusResponse, error) {
		if url == "https://a" {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return &clientv3.StatusResponse{Version: "3.5.16", DbSize: 7}, ctx.Err()
	})
	require.NoError(t, ctx.Err(), "each has a bound of its own")
	require.Equal(t, []shownMember{
		{Name: "a", ID: "0000000000000001", Started: true, Problem: "no answer in time"},
		{Name: "b", ID: "0000000000000002", Started: true, Leader: true, Version: "3.5.16", Size: 7},
		{Name: "c", ID: "0000000000000003", Started: true, Version: "3.5.16", Size: 7},
		{Name: "new", ID: "0000000000000004"},
	}, shown)
}
