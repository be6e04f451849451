package activate

import (
	"context"
	"errors"
	"testing"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/require"
)

// properties are properties of services by unit.
type properties map[string]map[string]any

func (s properties) GetUnitTypePropertyContext(_ context.Context, unit, _, name string) (*dbus.Property, error) {
	p, ok := s[unit]
	if !ok {
		return nil, errors.New("no such unit")
	}
	return &dbus.Property{Name: name, Value: godbus.MakeVariant(p[name])}, nil
}

func TestAServiceThatDidItsWork(t *testing.T) {
	of := func(kind, result string, ended uint64) map[string]any {
		return map[string]any{"Type": kind, "Result": result, "ExecMainExitTimestamp": ended}
	}
	s := properties{
		"done.service": of("oneshot", "success", 7), "never.service": of("oneshot", "success", 0),
		"failed.service": of("oneshot", "exit-code", 7), "simple.service": of("simple", "success", 7),
		"done.timer": of("oneshot", "success", 7), "strange.service": {"Type": 1, "Result": 2, "ExecMainExitTimestamp": "3"},
	}
	for unit := range s {
		require.Equal(t, unit == "done.service", Done(t.Context(), s, unit), unit)
	}
	require.False(t, Done(t.Context(), s, "gone.service"))
}

func TestAUnitWithAJob(t *testing.T) {
	require.True(t, HasJob(map[string]any{"Job": []any{uint32(3), "/"}}))
	for _, p := range []map[string]any{
		nil, {"Job": []any{}}, {"Job": []any{uint32(0), "/"}}, {"Job": "3"}, {"Job": []any{"3"}},
	} {
		require.False(t, HasJob(p), p)
	}
}
