package daemon

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/spec"
)

func TestNodesOfAClusterLookAtAboutTheSameTime(t *testing.T) {
	now := time.Date(2026, 11, 25, 18, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		every  int
		spread time.Duration
	}{
		"each hour":   {0, 5 * time.Minute},
		"each minute": {1, 30 * time.Second},
		"each day":    {24 * 60, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			c := &facts.Cluster{ID: "0b9c4f62", Updates: &spec.Updates{From: []string{"http://x"}, Every: tt.every}}
			var l lookout
			l.read(c, now)
			require.Equal(t, time.Duration(max(tt.every, 60*(1-min(tt.every, 1))))*time.Minute, l.every)
			require.False(t, l.next.After(now.Add(firstLook)), "one that was started now does not wait for long")
			first, last := l.after(now), l.after(now)
			for i := range 500 {
				at := l.after(now.Add(time.Duration(i%2) * time.Second))
				require.True(t, at.After(now))
				require.False(t, at.After(now.Add(l.every+tt.spread)))
				if at.Before(first) {
					first = at
				}
				if at.After(last) {
					last = at
				}
			}
			require.Less(t, last.Sub(first), tt.spread)
			require.Greater(t, last.Sub(first), tt.spread/2, "not all at once")
			require.Greater(t, l.after(last).Sub(last), l.every/4, "and not again at once")

			other := lookout{every: l.every, id: "another"}
			require.Greater(t, other.after(now).Sub(first).Abs(), time.Duration(0))
		})
	}
}

func TestANodeDoesNotLookWhereNothingSaysSo(t *testing.T) {
	l := lookout{every: time.Hour}
	l.read(&facts.Cluster{}, time.Now())
	require.Zero(t, l.every)
	require.Nil(t, (&agent{}).looked())
}
