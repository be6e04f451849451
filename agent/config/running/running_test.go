package running

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/require"

	"spore/cluster/role"
	"spore/pki"
	"spore/services"
)

func TestTheProgramThatSetsTheClockIsRestarted(t *testing.T) {
	plan, chrony := []string{"coredns.service", "systemd-timesyncd.service"}, t.TempDir()
	require.Equal(t, plan, present(plan, filepath.Join(chrony, "gone")))
	require.Equal(t, []string{"coredns.service", "chrony.service"}, present(plan, chrony))
	require.Equal(t, "systemd-timesyncd.service", plan[1], "the plan of the push stays as it is")
	require.Empty(t, present(nil, chrony))
}

func TestANodeTrustsAlreadyWhomItsBundleNames(t *testing.T) {
	keys := map[string][]byte{"mqtt.crt": []byte("new"), "signing.pub": []byte("key"), pki.RevisionFile: []byte("3\n")}
	for name, tt := range map[string]struct {
		files map[string]string
		want  bool
	}{
		"as the new part":      {map[string]string{"mqtt.crt": "new", "signing.pub": "key"}, true},
		"as the part before":   {map[string]string{"mqtt.crt": "old", "signing.pub": "key"}, false},
		"one more":             {map[string]string{"mqtt.crt": "new", "signing.pub": "key", "dns.crt": "x"}, false},
		"one less":             {map[string]string{"mqtt.crt": "new"}, false},
		"another in its place": {map[string]string{"mqtt.crt": "new", "dns.crt": "key"}, false},
		"nobody":               {map[string]string{}, false},
	} {
		dir := t.TempDir()
		for file, text := range tt.files {
			require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
		}
		require.Equal(t, tt.want, trusts(dir, keys), name)
	}
	require.False(t, trusts(filepath.Join(t.TempDir(), "none"), keys), "it has no bundle yet")
	require.False(t, trusts(t.TempDir(), nil), "an image without keys")
}

// restarts notes what is restarted, and how.
type restarts struct{ all, running []string }

func (r *restarts) Restart(_ context.Context, unit string) error {
	if unit == "bad.service" {
		return errors.New("no such unit")
	}
	r.all = append(r.all, unit)
	return nil
}

func (r *restarts) TryRestart(_ context.Context, unit string) error {
	r.running = append(r.running, unit)
	return nil
}

func TestWhatATimerStartsIsNotStartedOutOfItsTime(t *testing.T) {
	store := &role.Definition{Name: "store", Units: []string{"store.service", "backup.timer"}}
	l, err := services.With([]services.Definition{store})
	require.NoError(t, err)
	triggered := triggeredOf(l)
	require.Equal(t, []string{"backup.service"}, triggered)
	var r restarts
	units := []string{"backup.service", "coredns.service", "store.service"}
	require.NoError(t, restart(t.Context(), &r, units, triggered))
	require.Equal(t, restarts{[]string{"coredns.service", "store.service"}, []string{"backup.service"}}, r)
	require.ErrorContains(t, restart(t.Context(), &r, []string{"bad.service"}, triggered), "no such unit")
	require.Empty(t, triggeredOf(services.Ours()))
}

// one is the unit that systemd is asked about.
type one map[string]any

func (o one) GetUnitPropertiesContext(context.Context, string) (map[string]any, error) {
	if o == nil {
		return nil, errors.New("no such unit")
	}
	return o, nil
}

func (o one) GetUnitTypePropertyContext(_ context.Context, _, _, name string) (*dbus.Property, error) {
	if o[name] == nil {
		return nil, errors.New("no such property")
	}
	return &dbus.Property{Name: name, Value: godbus.MakeVariant(o[name])}, nil
}

func TestWhatIsUpAfterARestart(t *testing.T) {
	done := one{"ActiveState": "inactive", "Type": "oneshot", "Result": "success", "ExecMainExitTimestamp": uint64(7)}
	queued := one{"Job": []any{uint32(3), "/"}}
	for k, v := range done {
		queued[k] = v
	}
	for name, tt := range map[string]struct {
		unit              one
		itself, triggered bool
	}{
		"it runs":                             {one{"ActiveState": "active"}, true, true},
		"it ended":                            {one{"ActiveState": "inactive", "Type": "simple", "Result": "success"}, false, true},
		"it did its work":                     {done, true, true},
		"it did its work, and is to do more":  {queued, false, false},
		"it never ran":                        {one{"ActiveState": "inactive", "Type": "oneshot", "Result": "success"}, false, true},
		"it does its work":                    {one{"ActiveState": "activating", "SubState": "start"}, false, true},
		"it waits to be started again":        {one{"ActiveState": "activating", "SubState": "auto-restart"}, false, false},
		"it is being stopped":                 {one{"ActiveState": "deactivating"}, false, false},
		"it failed":                           {one{"ActiveState": "failed", "Type": "oneshot", "Result": "exit-code"}, false, false},
		"systemd does not know it":            {nil, false, false},
		"systemd says what nobody thought of": {one{"ActiveState": 1}, false, false},
	} {
		require.Equal(t, tt.itself, up(t.Context(), tt.unit, "x.service", false), name)
		require.Equal(t, tt.triggered, up(t.Context(), tt.unit, "x.service", true), name)
	}
}

func TestWhatDidNotRunIsNotSaidToBeRestarted(t *testing.T) {
	for state, want := range map[string]bool{"inactive": true, "failed": true, "active": false, "activating": false, "deactivating": false} {
		require.Equal(t, want, idle(t.Context(), one{"ActiveState": state}, "backup.service"), state)
	}
	require.False(t, idle(t.Context(), one(nil), "backup.service"), "systemd does not know it")
}
