package membership

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/services/kubernetes/etcd/member"
)

func TestNobodyIsRemovedOnWhomAMajorityHangs(t *testing.T) {
	up := func(id uint64, name string) member.Member { return member.Member{ID: id, Name: name} }
	down := func(id uint64, name string) member.Member {
		return member.Member{ID: id, Name: name, Problem: "no answer in time"}
	}
	learner := func(id uint64, name string) member.Member { return member.Member{ID: id, Name: name, Learner: true} }
	for name, tc := range map[string]struct {
		members []member.Member
		who     string
		want    string
	}{
		"a lost one of three":    {[]member.Member{up(1, "a"), up(2, "b"), down(3, "c")}, "c", ""},
		"a lost learner":         {[]member.Member{up(1, "a"), up(2, "b"), learner(3, "c")}, "c", ""},
		"one that serves":        {[]member.Member{up(1, "a"), up(2, "b"), up(3, "c")}, "c", ""},
		"the one that serves":    {[]member.Member{up(1, "a"), up(2, "b"), down(3, "c")}, "b", "of the 2 members that are left 1 serve, and a majority is 2"},
		"a learner is no voter":  {[]member.Member{up(1, "a"), learner(2, "b")}, "a", "a is the only member of etcd that votes"},
		"the only one":           {[]member.Member{up(1, "a")}, "a", "a is the only member of etcd that votes"},
		"nobody":                 {[]member.Member{up(1, "a")}, "x", `etcd has no member "x"`},
		"one that never started": {[]member.Member{up(1, "a"), {ID: 2, Problem: "it has not run yet"}}, "0000000000000002", ""},
	} {
		t.Run(name, func(t *testing.T) {
			gone, err := removable(tc.members, tc.who)
			if tc.want == "" {
				require.NoError(t, err)
				require.Contains(t, []string{gone.Name, fmt.Sprintf("%016x", gone.ID)}, tc.who)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}
