package quorum_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"spore/agent/answers"
	"spore/agent/formation"
	"spore/agent/formation/quorum"
	"spore/agent/netnstest"
	"spore/agent/nodetest"
	"spore/agent/status"
	"spore/services/kafka"
)

func TestAWipedBrokerWaitsAndJoinsTheOneThatHasData(t *testing.T) {
	netnstest.Run(t, func(t *testing.T) {
		lo, err := netlink.LinkByName("lo")
		require.NoError(t, err)
		require.NoError(t, netlink.LinkSetUp(lo))
		netnstest.Address(t, "lo", "10.77.0.11/32")
		machines := nodetest.Brokers(t, "10.77.0.11", "10.77.0.12")
		full, wiped := machines["kafka-1"], machines["kafka-2"]
		none := func(context.Context, formation.Plan) error { return errors.New("there is data") }
		kind, err := quorum.Enter(context.Background(), full, kafka.Quorum(), func() (bool, error) { return false, nil }, none)
		require.NoError(t, err)
		require.Equal(t, formation.Run, kind)

		plans := make(chan formation.Plan, 1)
		done := make(chan error, 1)
		go func() {
			_, err := quorum.Enter(context.Background(), wiped, kafka.Quorum(), func() (bool, error) { return true, nil }, func(_ context.Context, p formation.Plan) error {
				plans <- p
				return nil
			})
			done <- err
		}()
		require.Eventually(t, func() bool {
			return strings.Contains(wiped.Waiting()["kafka"], "waiting for kafka-1 (no answer: connect: connection refused)")
		}, 20*time.Second, 10*time.Millisecond)
		require.Contains(t, status.Text(status.Line{Waiting: wiped.Waiting()}), "waiting    kafka: waiting for kafka-1")
		err = quorum.Force(context.Background(), wiped, io.Discard, "kafka", nil)
		require.ErrorContains(t, err, "kafka-1 does not answer")
		require.ErrorContains(t, err, " kafka --lose kafka-1")

		stop := nodetest.Serve(t, full, answers.Serve)
		require.NoError(t, <-done)
		require.Equal(t, formation.Join, (<-plans).Kind)
		require.Empty(t, wiped.Waiting())
		err = quorum.Force(context.Background(), wiped, io.Discard, "kafka", nil)
		require.ErrorContains(t, err, "kafka-1 has data")
		require.NoError(t, quorum.Show(context.Background(), wiped, io.Discard, false))
		require.NoError(t, quorum.Show(context.Background(), wiped, io.Discard, true))
		stop()

		require.NoError(t, quorum.Force(context.Background(), wiped, io.Discard, "kafka", []string{"kafka-1", "kafka-2"}))
		kind, err = quorum.Enter(context.Background(), wiped, kafka.Quorum(), func() (bool, error) { return false, nil }, func(_ context.Context, p formation.Plan) error {
			require.Equal(t, []string{"kafka-2"}, p.Names())
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, formation.Form, kind)
	})
}

func TestOnlyAMemberFormsAQuorumByForce(t *testing.T) {
	m := nodetest.Brokers(t, "10.77.0.11")["kafka-1"]
	require.ErrorContains(t, quorum.Force(t.Context(), m, io.Discard, "ceph-mon", nil), "is not a member of ceph-mon")
	require.ErrorContains(t, quorum.Force(t.Context(), m, io.Discard, "mqtt", nil), "mqtt is not a quorum service")
}
