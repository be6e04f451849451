package health

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/facts"
	"spore/cluster/role"
	"spore/services"
	"spore/wire/nodeapi"
)

func TestRolesOfTheConfigurationsOwn(t *testing.T) {
	valkey := OwnRole{Name: "valkey", Units: []string{"valkey.service", "backup.timer"}, Health: "listens at 10.0.0.1:6379"}
	for name, tc := range map[string]struct {
		change func(*Input)
		is     nodeapi.State
		reason string
	}{
		"none":                 {func(in *Input) { in.OwnRoles = nil }, "", ""},
		"one that is well":     {func(*Input) {}, nodeapi.OK, "valkey listens at 10.0.0.1:6379"},
		"one that nobody asks": {func(in *Input) { in.OwnRoles[0].Health = "" }, nodeapi.OK, "valkey runs"},
		"one that is not well": {func(in *Input) { in.OwnRoles[0].Problem = "nobody listens at 10.0.0.1:6379" }, nodeapi.Failing, "valkey: nobody listens at 10.0.0.1:6379"},
		"a unit that ended":    {func(in *Input) { in.Line.Services["valkey.service"] = "inactive" }, nodeapi.Failing, "valkey: valkey.service is inactive"},
		"a unit that failed":   {func(in *Input) { in.Line.Failed = []string{"valkey.service"} }, nodeapi.Failing, "valkey: valkey.service failed"},
		"a timer that was not started": {func(in *Input) { delete(in.Line.Services, "backup.timer") }, nodeapi.Failing,
			"valkey: backup.timer was not started"},
		"what a timer starts does not run now": {func(in *Input) { in.OwnRoles[0].Triggered = []string{"backup.service"} }, nodeapi.OK,
			"valkey listens at 10.0.0.1:6379"},
		"what a timer started has failed": {func(in *Input) {
			in.OwnRoles[0].Triggered, in.Line.Failed = []string{"backup.service"}, []string{"backup.service"}
		}, nodeapi.Failing, "valkey: backup.service failed"},
		"two": {func(in *Input) {
			in.OwnRoles = append(in.OwnRoles, OwnRole{Name: "zebra", Problem: "no line"})
		}, nodeapi.Failing, "zebra: no line"},
	} {
		t.Run(name, func(t *testing.T) {
			in := healthy()
			in.OwnRoles = []OwnRole{valkey}
			in.Line.Services = map[string]string{"valkey.service": "active", "backup.timer": "active"}
			tc.change(&in)
			is, reason := ownRoles(in)
			require.Equal(t, tc.is, is)
			require.Equal(t, tc.reason, reason)
		})
	}
}

func TestRolesAskForMemory(t *testing.T) {
	l, err := services.With([]services.Definition{
		&role.Definition{Name: "valkey", Units: []string{"valkey.service"}, Memory: "256MiB"},
		&role.Definition{Name: "historian", Units: []string{"historian.service"}, Memory: "1GiB"},
		&role.Definition{Name: "small", Units: []string{"small.service"}},
	})
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		roles  []string
		memory uint64
		is     nodeapi.State
		reason string
	}{
		"none of its own":       {[]string{"kafka-broker"}, 1 << 30, "", ""},
		"one that says nothing": {[]string{"small"}, 1 << 20, "", ""},
		"enough":                {[]string{"valkey", "historian"}, 1280 << 20, nodeapi.OK, "1280 MiB, and 1280 MiB are asked for by valkey, historian"},
		"less":                  {[]string{"valkey", "historian"}, 1280<<20 - 1, nodeapi.Warning, "the machine has less memory than its roles ask for: 1279 MiB, and 1280 MiB are asked for by valkey, historian"},
		"not known":             {[]string{"valkey"}, 0, nodeapi.Warning, "it is not known how much memory the machine has"},
	} {
		t.Run(name, func(t *testing.T) {
			is, reason := memory(Input{Cluster: &facts.Cluster{Roles: l.Facts()}, Node: &facts.Node{Roles: tc.roles}, Memory: tc.memory})
			require.Equal(t, tc.is, is)
			require.Equal(t, tc.reason, reason)
		})
	}
}
