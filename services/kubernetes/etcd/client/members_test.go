package client

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestReasonIsForPeople(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"nobody listens", status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp 10.77.0.22:2379: connect: connection refused"`), "no answer: connect: connection refused"},
		{"an address of version 6", status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp [fd77::22]:2379: connect: no route to host"`), "no answer: connect: no route to host"},
		{"a member without a leader", status.Error(codes.Unavailable, "etcdserver: no leader"), "no answer: etcdserver: no leader"},
		{"a time that is over", status.Error(codes.DeadlineExceeded, "context deadline exceeded"), "no answer in time"},
		{"a time of ours that is over", fmt.Errorf("ask: %w", context.DeadlineExceeded), "no answer in time"},
		{"a refusal", status.Error(codes.FailedPrecondition, "etcdserver: re-configuration failed due to not enough started members"), "etcdserver: re-configuration failed due to not enough started members"},
		{"an error that is none of etcd", errors.New("the disk is full"), "the disk is full"},
	} {
		t.Run(tt.name, func(t *testing.T) { require.EqualError(t, Reason(tt.err), tt.want) })
	}
}

func TestConnectRefusesWhatIsNoIdentity(t *testing.T) {
	_, err := Connect(Identity{Authorities: []byte("x")}, 1, Own)
	require.ErrorContains(t, err, "the file of its authorities has no certificate")
}
