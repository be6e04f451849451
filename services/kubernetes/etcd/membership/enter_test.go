package membership

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"spore/services/kubernetes/etcd/client"
	"spore/services/kubernetes/etcd/member"
)

// dropping is an etcd that drops the first changes of its members, as one does that has another one under way: who asked gets no
// answer for as long as he waits.
type dropping struct {
	pb.UnimplementedKVServer
	pb.UnimplementedClusterServer
	drops int
}

func (*dropping) Range(context.Context, *pb.RangeRequest) (*pb.RangeResponse, error) {
	return &pb.RangeResponse{Header: &pb.ResponseHeader{}}, nil
}

func (d *dropping) MemberAdd(ctx context.Context, r *pb.MemberAddRequest) (*pb.MemberAddResponse, error) {
	if d.drops > 0 {
		d.drops--
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &pb.MemberAddResponse{Header: &pb.ResponseHeader{}, Member: &pb.Member{ID: 9, PeerURLs: r.PeerURLs, IsLearner: true}}, nil
}

func TestAnEntrantAsksAgainWhoseRequestWasDropped(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	etcd, server := &dropping{drops: 1}, grpc.NewServer()
	pb.RegisterKVServer(server, etcd)
	pb.RegisterClusterServer(server, etcd)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{listener.Addr().String()}, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })

	e := testEntrant(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	others := client.Cluster{Members: []member.Member{{ID: 3, Name: "master-2", Peers: []string{"https://10.77.0.2:2380"}}}}

	e.within = 200 * time.Millisecond
	wait, again, err := e.enter(ctx, c, others)
	require.NoError(t, err)
	require.False(t, again)
	require.Equal(t, "the others to let this master in: no answer in time", wait)
	require.NoError(t, ctx.Err())

	e.within = time.Minute
	wait, again, err = e.enter(ctx, c, others)
	require.NoError(t, err)
	require.False(t, again)
	require.Empty(t, wait)
	o, err := e.dir.Read()
	require.NoError(t, err)
	require.Equal(t, uint64(9), o.ID)
}
