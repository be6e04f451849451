package roles

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryNameAndAliasIsUniqueAndFound(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Roles() {
		for _, name := range append([]string{r.Name}, r.Aliases...) {
			require.False(t, seen[name], name)
			seen[name] = true
			got, ok := Lookup(name)
			require.True(t, ok)
			require.Equal(t, r.Name, got.Name)
		}
		require.NotEmpty(t, r.Service)
		require.Regexp(t, `^[a-z-]+\.target$`, r.Target)
		for _, p := range r.Programs {
			_, ok := LookupProgram(p)
			require.True(t, ok, "%s of role %s is in the program table", p, r.Name)
		}
	}
	_, ok := Lookup("mainframe")
	require.False(t, ok)
}

// The names of roles and targets are a contract with the users.
func TestTheContractOfRolesAndTargets(t *testing.T) {
	for role, target := range map[string]string{
		"master": "kubernetes-master.target", "control-plane": "kubernetes-master.target", "worker": "kubernetes-worker.target",
		"kafka-broker": "kafka.target", "ceph-mon": "ceph-mon.target", "ceph-osd": "ceph-osd.target",
		"mqtt-broker": "mqtt.target", "dns-server": "dns.target",
	} {
		r, ok := Lookup(role)
		require.True(t, ok, role)
		require.Equal(t, target, r.Target)
	}
}

func TestEveryProgramBelongsToARole(t *testing.T) {
	used := map[string]bool{}
	for _, r := range Roles() {
		for _, p := range r.Programs {
			used[p] = true
		}
	}
	for _, p := range Programs() {
		require.True(t, used[p.Name], p.Name)
		require.NotEmpty(t, p.Unit)
		require.NotEmpty(t, p.User)
		require.NotEmpty(t, append(p.Packages, p.Payloads...))
	}
	_, ok := LookupProgram("sendmail")
	require.False(t, ok)
}
