package health

import (
	"encoding/json"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"spore/agent/activate"
	"spore/agent/arp"
	agentclock "spore/agent/clock"
	"spore/agent/datadisk"
	"spore/agent/delivery"
	"spore/agent/renewal"
	"spore/agent/slot"
	"spore/agent/state"
	"spore/agent/status"
	agentwatchdog "spore/agent/watchdog"
	"spore/cluster/facts"
	"spore/services/service"
	"spore/wire/nodeapi"
)

var now = time.Date(2026, 11, 22, 4, 0, 0, 0, time.UTC)

// healthy is a broker that is as it should be.
func healthy() Input {
	return Input{
		Cluster: &facts.Cluster{ID: "6f1f0f5e-3c1b-4b0e-9a65-2d6a7b1c0d11", Name: "plant"}, Node: &facts.Node{Name: "kafka-1", Roles: []string{"kafka-broker"}},
		Now: now, Up: 90*time.Second + 3, AgentRuns: true, CertificateEnds: now.Add(300 * 24 * time.Hour),
		Var: Space{Bytes: 100 << 20, FreeBytes: 60 << 20, Files: 1000, FreeFiles: 900}, Addresses: []string{"10.77.0.14"},
		Quorums: []Quorum{{"kafka", "kafka.service", []string{"kafka-1", "kafka-2"}}}, Renewal: renewal.State{Serial: 3, Ends: now.Add(300 * 24 * time.Hour)},
		Line: status.Line{
			Spore: 1, Cluster: "plant", Node: "kafka-1", Matched: &status.Matched{By: "mac", Value: "52:54:00:00:00:14", Phase: 1}, Roles: []string{"kafka-broker"},
			Services: map[string]string{"kafka.service": "active", "kafka.target": "active", "kafka-disks.service": "active", "kafka-bootstrap.service": "inactive"},
			State:    &state.Info{Kind: state.Partition, Device: "/dev/vda9"}, Disks: []datadisk.Info{{Use: "kafka", Selector: "serial=A"}},
			Clock:         &agentclock.State{Synchronized: true, From: "10.77.0.2"},
			Watchdog:      &agentwatchdog.Info{Identity: "iTCO_wdt", Seconds: 60, Held: true},
			Configuration: &slot.Info{RootHash: "aa", ClusterHash: "bb"},
			Bundle:        &delivery.Info{Serial: 3, From: delivery.State}, System: "running", Addresses: []string{"10.77.0.14", "fe80::1"},
		},
	}
}

func find(h nodeapi.Health, name string) *nodeapi.Condition {
	for i := range h.Conditions {
		if h.Conditions[i].Name == name {
			return &h.Conditions[i]
		}
	}
	return nil
}

func TestANodeThatIsAsItShouldBe(t *testing.T) {
	in := healthy()
	h := Of(in)
	require.True(t, h.Healthy)
	var names []string
	for _, c := range h.Conditions {
		names = append(names, c.Name)
		require.Equal(t, nodeapi.OK, c.State, "%s: %s", c.Name, c.Reason)
	}
	require.Equal(t, []string{"agent", "identity", "clock", "watchdog", "state", "space", "disks", "network", "secrets", "certificate", "renewal", "configuration", "roles", "quorums", "units", "system"}, names, "the order is what one reads down")
	require.Equal(t, "running, up for 1m30s", find(h, "system").Reason)
	require.Equal(t, []nodeapi.Member{{Service: "kafka", Of: []string{"kafka-1", "kafka-2"}, Serves: true}}, h.Quorums)
	data, err := json.Marshal(h)
	require.NoError(t, err)
	back, err := nodeapi.ParseHealth(data, in.Cluster.ID, "kafka-1")
	require.NoError(t, err)
	require.Equal(t, h, back)
}

func TestEachThingThatIsWrongHasItsConditionAndReason(t *testing.T) {
	for name, tc := range map[string]struct {
		change    func(*Input)
		condition string
		is        nodeapi.State
		reason    string
	}{
		"no status line":        {func(in *Input) { in.Line, in.LineProblem = status.Line{}, "there is no status yet" }, "agent", nodeapi.Failing, "there is no status yet"},
		"the agent died":        {func(in *Input) { in.AgentRuns = false }, "agent", nodeapi.Failing, "spore-agent.service does not run"},
		"no node":               {func(in *Input) { in.Line.Problem = "two nodes match" }, "identity", nodeapi.Failing, "two nodes match"},
		"not known yet":         {func(in *Input) { in.Line.Matched = nil }, "identity", nodeapi.Failing, "not said yet"},
		"no time server":        {func(in *Input) { in.Line.Clock = &agentclock.State{} }, "clock", nodeapi.Warning, "no time server has answered"},
		"one that is silent":    {func(in *Input) { in.Line.Clock = &agentclock.State{Problem: "no time server answers, of 10.0.0.1"} }, "clock", nodeapi.Warning, "of 10.0.0.1"},
		"one that was there":    {func(in *Input) { in.Line.Clock = &agentclock.State{Synchronized: true} }, "clock", nodeapi.OK, "does not answer now"},
		"one of chrony":         {func(in *Input) { in.Line.Clock = &agentclock.State{Synchronized: true, By: "chrony"} }, "clock", nodeapi.OK, "kept by chrony"},
		"a clock that is wrong": {func(in *Input) { in.Line.Clock = &agentclock.State{Wrong: true, Problem: "could not be right"} }, "clock", nodeapi.Failing, "could not be right"},
		"a clock not looked at": {func(in *Input) { in.Line.Clock = nil }, "clock", nodeapi.Warning, "has not said yet"},
		"a watchdog that is not held": {func(in *Input) { in.Line.Watchdog.Held = false }, "watchdog", nodeapi.Warning,
			"iTCO_wdt is not in use: nothing restarts this machine when it hangs"},
		"a watchdog without a name": {func(in *Input) { in.Line.Watchdog.Identity = "" }, "watchdog", nodeapi.OK,
			"without a name restarts this machine when it hangs for 60 s"},
		"a watchdog that has reset": {func(in *Input) { in.Line.Watchdog.HasReset = true }, "watchdog", nodeapi.Warning,
			"and did so before this start"},
		"a tmpfs": {func(in *Input) { in.Line.State = &state.Info{Kind: state.Tmpfs, Warning: "no disk"} }, "state", nodeapi.Warning, "no disk"},
		"another node's state": {func(in *Input) {
			in.Line.State = &state.Info{Kind: state.Tmpfs, Warning: "of another node", Refused: true}
		}, "state", nodeapi.Failing, "of another node"},
		"no state known":                {func(in *Input) { in.Line.State = nil }, "state", nodeapi.Warning, "not known"},
		"little space":                  {func(in *Input) { in.Var.FreeBytes = 14 << 20 }, "space", nodeapi.Warning, "14 % of /var is free (14 of 100 MiB)"},
		"no space":                      {func(in *Input) { in.Var.FreeBytes = 4 << 20 }, "space", nodeapi.Failing, "4 % of /var is free"},
		"a small share of a large disk": {func(in *Input) { in.Var = Space{Bytes: 1 << 40, FreeBytes: 5 << 30} }, "space", nodeapi.OK, "0 % of /var is free (5120 of 1048576 MiB)"},
		"no files":                      {func(in *Input) { in.Var.FreeFiles = 10 }, "space", nodeapi.Failing, "and room for 1 % of its files"},
		"space that is not known":       {func(in *Input) { in.Var = Space{Problem: "statfs: no"} }, "space", nodeapi.Warning, "statfs: no"},
		"a disk that is refused":        {func(in *Input) { in.Line.Disks[0].Problem = "holds ext4" }, "disks", nodeapi.Failing, "kafka disk serial=A: holds ext4"},
		"an address that is missing":    {func(in *Input) { in.Line.Addresses = []string{"192.0.2.1"} }, "network", nodeapi.Failing, "does not have its address 10.77.0.14"},
		"an address that is another's": {func(in *Input) {
			in.Line.Conflicts, in.Line.Addresses = []arp.Used{{IP: netip.MustParseAddr("10.77.0.14"), MAC: "02:00:00:00:00:01"}}, nil
		}, "network", nodeapi.Failing, "10.77.0.14 is used by 02:00:00:00:00:01"},
		"no address": {func(in *Input) { in.Addresses, in.Line.Addresses = nil, nil }, "network", nodeapi.Failing, "no address"},
		"no bundle":  {func(in *Input) { in.Line.Bundle = nil }, "secrets", nodeapi.Failing, "no bundle"},
		"a bundle that cannot be opened": {func(in *Input) { in.Line.Bundle = &delivery.Info{Problem: "the TPM refuses"} }, "secrets", nodeapi.Failing,
			"the TPM refuses"},
		"a bundle with a problem":    {func(in *Input) { in.Line.Bundle.Problem = "is not kept" }, "secrets", nodeapi.Warning, "bundle 3: is not kept"},
		"a certificate near its end": {func(in *Input) { in.CertificateEnds = now.Add(13 * 24 * time.Hour) }, "certificate", nodeapi.Warning, "ends at 2026-12-05T04:00:00Z"},
		"a certificate at its end":   {func(in *Input) { in.CertificateEnds = now.Add(-time.Second) }, "certificate", nodeapi.Failing, "has ended at 2026-11-22T03:59:59Z"},
		"no certificate":             {func(in *Input) { in.CertificateEnds = time.Time{} }, "certificate", nodeapi.Failing, "cannot be read"},
		"a renewal that waits":       {func(in *Input) { in.Renewal.Problem = "no master has signed" }, "renewal", nodeapi.Warning, "no master has signed"},
		"a renewal not known":        {func(in *Input) { in.RenewalProblem = "it is not known" }, "renewal", nodeapi.Warning, "not known"},
		"a program that has the former certificate": {func(in *Input) {
			in.Renewal.Pending = map[string]renewal.Pending{"kafka": {Way: service.Restarts}}
		}, "renewal", nodeapi.Warning, "not taken yet by kafka"},
		"a configuration that was taken back": {func(in *Input) {
			in.Line.Configuration.Problem = "went back to this configuration: etcd.service failed"
		}, "configuration", nodeapi.Warning,
			"etcd.service failed"},
		"a configuration on trial":     {func(in *Input) { in.Line.Configuration = &slot.Info{Serial: 4, Trial: true} }, "configuration", nodeapi.Warning, "pushed configuration 4 is on trial"},
		"one for the next start":       {func(in *Input) { in.Line.Configuration = &slot.Info{Staged: "abc"} }, "configuration", nodeapi.Warning, "the next start takes the pushed configuration abc"},
		"one that was taken at once":   {func(in *Input) { in.Line.Configuration = &slot.Info{Staged: "abc", Live: true} }, "configuration", nodeapi.OK, "took the pushed configuration abc"},
		"one that was pushed and kept": {func(in *Input) { in.Line.Configuration = &slot.Info{Serial: 4} }, "configuration", nodeapi.OK, "pushed configuration 4"},
		"a role that is held":          {func(in *Input) { in.Line.Held = []activate.Held{{Role: "kafka-broker", Reason: "missing secrets"}} }, "roles", nodeapi.Failing, "kafka-broker is held: missing secrets"},
		"roles not started":            {func(in *Input) { in.Line.Roles = nil }, "roles", nodeapi.Failing, "none was started yet"},
		"a member that waits":          {func(in *Input) { in.Line.Waiting = map[string]string{"kafka": "waiting for kafka-2"} }, "quorums", nodeapi.Failing, "kafka: waiting for kafka-2"},
		"a member that starts":         {func(in *Input) { in.Line.Services["kafka.service"] = "activating" }, "quorums", nodeapi.Failing, "kafka: kafka.service is activating"},
		"a member that is off":         {func(in *Input) { delete(in.Line.Services, "kafka.service") }, "quorums", nodeapi.Failing, "kafka: kafka.service was not started"},
		"a wait of no quorum":          {func(in *Input) { in.Line.Waiting = map[string]string{"x": "waits for y"} }, "quorums", nodeapi.Failing, "x: waits for y"},
		"a failed unit":                {func(in *Input) { in.Line.Failed = []string{"chrony.service"} }, "units", nodeapi.Failing, "chrony.service failed"},
		"a unit that starts":           {func(in *Input) { in.Line.Services["kafka-disks.service"] = "activating" }, "units", nodeapi.Failing, "kafka-disks.service is activating"},
		"a unit that stops":            {func(in *Input) { in.Line.Services["kafka-disks.service"] = "deactivating" }, "units", nodeapi.Failing, "kafka-disks.service is deactivating"},
		"a unit not started yet":       {func(in *Input) { in.Line.System = "starting" }, "units", nodeapi.Failing, "kafka-bootstrap.service is not started yet"},
		"a boot that goes on":          {func(in *Input) { in.Line.System = "starting" }, "system", nodeapi.Failing, "starting, up for 1m30s"},
		"a degraded system":            {func(in *Input) { in.Line.System = "degraded" }, "system", nodeapi.Failing, "degraded"},
	} {
		t.Run(name, func(t *testing.T) {
			in := healthy()
			tc.change(&in)
			h := Of(in)
			c := find(h, tc.condition)
			require.NotNil(t, c)
			require.Equal(t, tc.is, c.State, c.Reason)
			require.Contains(t, c.Reason, tc.reason)
			require.Equal(t, tc.is != nodeapi.Failing, h.Healthy)
		})
	}
}

func TestAConditionThatNothingCouldBeSaidOfIsLeftOut(t *testing.T) {
	in := healthy()
	in.Quorums, in.Line.Disks, in.Line.Configuration, in.Renewal = nil, nil, nil, renewal.State{}
	in.Line.Watchdog = nil
	h := Of(in)
	require.True(t, h.Healthy)
	require.Nil(t, find(h, "disks"))
	require.Nil(t, find(h, "quorums"))
	require.Nil(t, find(h, "configuration"))
	require.Nil(t, find(h, "renewal"))
	require.Nil(t, find(h, "watchdog"), "a machine without one is as healthy")
	require.Empty(t, h.Quorums)
}

func TestANodeWithoutRolesIsHealthy(t *testing.T) {
	in := healthy()
	in.Node.Roles, in.Line.Roles, in.Quorums = nil, nil, nil
	require.True(t, Of(in).Healthy)
}
