// Package restart is the verb restart: a unit of the node's roles, or one of Spore's own, is stopped and started again.
// No other unit is: a mount or a part of systemd would take the node with it.
package restart

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"spore/agent/activate"
	"spore/agent/disks"
	"spore/agent/formation"
	"spore/agent/verbs"
	"spore/agent/verbs/majority"
	"spore/cluster/facts"
	"spore/cluster/role"
	"spore/services"
	"spore/wire/nodeapi"
)

// apiUnit carries the answer; it is restarted when that has gone out.
const apiUnit = "spore-api.service"

// Bounds of what is shown of the journal when a unit does not come up.
const (
	journalLines = 8
	journalBound = 10 * time.Second
)

// maxPulled bounds how many units are looked at for those that a restart takes with it.
const maxPulled = 500

// Restart restarts a unit, or those of a role, and returns when they are active again.
func Restart(ctx context.Context, r *verbs.Run) (string, error) {
	name := r.Argument("unit", "")
	units, err := find(r.Cluster, r.Node, disks.OSDUnits(disks.All(r.Machine)), name)
	if err != nil {
		return "", err
	}
	bus, err := activate.Connect(ctx)
	if err != nil {
		return "", err
	}
	defer bus.Close()
	return restart(ctx, r, manager{bus}, units)
}

// systemd is what is asked of it.
type systemd interface {
	// pulled lists the units that are stopped when one is.
	pulled(ctx context.Context, unit string) ([]string, error)
	restart(ctx context.Context, unit string) error
	// state is the unit's active state.
	state(ctx context.Context, unit string) (string, error)
}

func restart(ctx context.Context, r *verbs.Run, s systemd, units []string) (string, error) {
	taken, err := withPulled(ctx, s, units)
	if err != nil {
		return "", err
	}
	what := "a restart of " + strings.Join(units, ", ")
	back, err := majority.Guard(ctx, r, majority.Absence{
		What: what, Returns: true,
		Concerns: func(q formation.Service) bool { return slices.Contains(taken, q.Unit) },
		OSDs:     func(unit string) bool { return slices.Contains(taken, unit) },
	})
	if err != nil {
		return "", err
	}
	if r.Order.DryRun {
		return fmt.Sprintf("would restart %s; nothing was done", strings.Join(units, ", ")), nil
	}
	defer back()
	for _, unit := range units {
		if unit == apiUnit {
			r.After(func() error { return again(context.WithoutCancel(ctx), r) })
			continue
		}
		if err := r.Say("restarts %s, and waits until it is active", unit); err != nil {
			return "", err
		}
		if err := one(ctx, s, unit); err != nil {
			return "", errors.Join(err, journal(context.WithoutCancel(ctx), r, unit))
		}
	}
	if slices.Contains(units, apiUnit) {
		return "restarts " + apiUnit + " now, which ends this answer", nil
	}
	return "restarted " + strings.Join(units, ", "), nil
}

// again restarts the API, on a connection of its own: that of the verb is closed.
func again(ctx context.Context, r *verbs.Run) error {
	bus, err := activate.Connect(ctx)
	if err == nil {
		defer bus.Close()
		err = bus.RestartAndWait(ctx, apiUnit)
	}
	if err != nil {
		r.Machine.Say(err.Error())
	}
	return err
}

// one restarts a unit. That its job ended well says little of a program that ends a moment later.
func one(ctx context.Context, s systemd, unit string) error {
	if err := s.restart(ctx, unit); err != nil {
		return err
	}
	is, err := s.state(ctx, unit)
	if err != nil {
		return err
	}
	if is == "failed" {
		return fmt.Errorf("%s was restarted, and has failed since", unit)
	}
	return nil
}

// journal tells the caller what a unit wrote last.
func journal(ctx context.Context, r *verbs.Run, unit string) error {
	ctx, cancel := context.WithTimeout(ctx, journalBound)
	defer cancel()
	out, err := exec.CommandContext(ctx, "journalctl", "--quiet", "--no-pager", "--output=cat",
		fmt.Sprintf("--lines=%d", journalLines), "--unit="+unit).Output()
	if err != nil {
		return fmt.Errorf("look with `spore logs %s %s` why", r.Node.Name, unit)
	}
	for line := range strings.Lines(string(out)) {
		if err := r.Say("  %.500s", strings.TrimRight(line, "\n")); err != nil {
			return err
		}
	}
	return fmt.Errorf("above are its last lines; `spore logs %s %s` has more", r.Node.Name, unit)
}

// find returns the units that a name means on a node: a unit of its roles or of every node, or all services of a role.
func find(c *facts.Cluster, n *facts.Node, osds []string, name string) ([]string, error) {
	l := services.Of(c)
	var all []string
	for _, roleName := range n.Roles {
		row, found := l.Lookup(roleName)
		if !found {
			continue
		}
		var units []string
		own, _ := l.Own(roleName)
		if d, ok := own.(*role.Definition); ok {
			units = slices.Concat(d.Units, d.Triggered())
		} else {
			for _, program := range services.RolePrograms(c, row) {
				if !strings.Contains(program.Unit, "@.") {
					units = append(units, program.Unit)
				}
			}
		}
		if name == row.Name || slices.Contains(row.Aliases, name) {
			return units, nil
		}
		all = append(all, units...)
	}
	for _, program := range services.EveryNode(c) {
		if row, _ := l.LookupProgram(program); !strings.Contains(row.Unit, "@.") {
			all = append(all, row.Unit)
		}
	}
	all = append(append(all, "spore-agent.service"), osds...)
	unit, err := nodeapi.UnitName(name)
	if err != nil {
		return nil, err
	}
	if slices.Contains(all, unit) {
		return []string{unit}, nil
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return nil, fmt.Errorf("%s is not a unit that can be restarted on %s; those are %s, and the roles %s",
		unit, n.Name, strings.Join(all, ", "), strings.Join(n.Roles, ", "))
}

// withPulled adds the units that a restart takes with it.
func withPulled(ctx context.Context, s systemd, units []string) ([]string, error) {
	taken := slices.Clone(units)
	for i := 0; i < len(taken) && len(taken) < maxPulled; i++ {
		more, err := s.pulled(ctx, taken[i])
		if err != nil {
			return nil, err
		}
		for _, unit := range more {
			if !slices.Contains(taken, unit) {
				taken = append(taken, unit)
			}
		}
	}
	return taken, nil
}

// manager is the systemd of the machine.
type manager struct{ bus *activate.Bus }

// pulled reads the dependencies by which a stop spreads (systemd.unit(5), Mapping of unit properties to their
// inverses).
func (m manager) pulled(ctx context.Context, unit string) ([]string, error) {
	p, err := m.bus.Conn().GetUnitPropertiesContext(ctx, unit)
	if err != nil {
		return nil, fmt.Errorf("ask systemd for %s: %w", unit, err)
	}
	if p["LoadState"] == "not-found" {
		return nil, fmt.Errorf("the image of this node has no unit %s", unit)
	}
	var out []string
	for _, kind := range []string{"RequiredBy", "BoundBy", "ConsistsOf"} {
		list, _ := p[kind].([]string)
		out = append(out, list...)
	}
	return out, nil
}

func (m manager) restart(ctx context.Context, unit string) error {
	return m.bus.RestartAndWait(ctx, unit)
}

func (m manager) state(ctx context.Context, unit string) (string, error) {
	list, err := m.bus.Conn().ListUnitsByNamesContext(ctx, []string{unit})
	if err != nil || len(list) != 1 {
		return "", fmt.Errorf("ask systemd for %s: %w", unit, errors.Join(err, errors.New("no answer")))
	}
	return list[0].ActiveState, nil
}
