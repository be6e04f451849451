package activate

import (
	"context"
	"strings"
)

// Services is what is asked about services; a *dbus.Conn is one.
type Services interface {
	GetUnitTypePropertiesContext(ctx context.Context, unit, unitType string) (map[string]any, error)
}

// Done tells whether an inactive unit is a service that did its work and ended well: one of Type=oneshot that has run
// and has the result success (org.freedesktop.systemd1(5)). systemd has that result for services that never ran, too.
// With RemainAfterExit=yes such a service would be active.
func Done(ctx context.Context, s Services, unit string) bool {
	if !strings.HasSuffix(unit, ".service") {
		return false
	}
	p, err := s.GetUnitTypePropertiesContext(ctx, unit, "Service")
	if err != nil {
		return false
	}
	ended, _ := p["ExecMainExitTimestamp"].(uint64)
	return p["Type"] == "oneshot" && p["Result"] == "success" && ended > 0
}

// HasJob tells whether a job of a unit is queued or runs (org.freedesktop.systemd1(5), Job): its number, and an object
// path.
func HasJob(properties map[string]any) bool {
	job, _ := properties["Job"].([]any)
	if len(job) == 0 {
		return false
	}
	number, _ := job[0].(uint32)
	return number != 0
}
