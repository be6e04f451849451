package fleet

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
)

func TestNodesAreAskedAtOnceAndAnswerInTheirOrder(t *testing.T) {
	c := &Cluster{Timeout: time.Minute}
	for i := range 2 * atOnce {
		c.Nodes = append(c.Nodes, facts.Node{Name: string(rune('a' + i%26)), IPs: []string{string(rune('0' + i%10))}})
	}
	var inside, most atomic.Int32
	answers := Each(context.Background(), c, func(ctx context.Context, n facts.Node) (string, error) {
		now := inside.Add(1)
		defer inside.Add(-1)
		for {
			before := most.Load()
			if now <= before || most.CompareAndSwap(before, now) {
				break
			}
		}
		_, bounded := ctx.Deadline()
		require.True(t, bounded)
		time.Sleep(20 * time.Millisecond)
		if n.Name == "b" {
			return "", errors.New("no")
		}
		return n.Name, nil
	})
	require.Len(t, answers, len(c.Nodes))
	for i, a := range answers {
		require.Equal(t, c.Nodes[i].Name, a.Node.Name)
		require.Equal(t, a.Node.Name == "b", a.Err != nil)
		require.False(t, a.Answered.Before(a.Asked))
	}
	require.Greater(t, most.Load(), int32(1))
	require.LessOrEqual(t, most.Load(), int32(atOnce))
}
