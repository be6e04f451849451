// Package logs reads the journals of the nodes of a cluster, or asks the store of logs for them.
package logs

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"spore/cluster/facts"
	"spore/cluster/role"
	"spore/fleet"
	"spore/fleet/moment"
	"spore/services"
	"spore/wire/machine"
	"spore/wire/nodeapi"
)

// silence is after how long without a sign of the node a follower gives up. The node gives one every 15 seconds.
const silence = time.Minute

// Options are what is asked for, in the forms that the flags of `spore logs` have. What is empty leaves nothing out.
type Options struct {
	// Several says that several nodes may be asked, of which a store may answer. Direct has them asked themselves, and
	// Follow what they write from now on, too.
	Several, Direct, Follow bool
	Roles, Units, Sources   []string
	// Pod is NAMESPACE/POD or NAMESPACE/POD/CONTAINER. Around is an alert: its time is that of the question.
	Pod, Around                        string
	Since, Until, Priority, Grep, Boot string
	// Lines is how many of the last lines are asked for. Where LinesGiven is not set, all of a time are.
	Lines      int
	LinesGiven bool
}

// OnlyStore tells whether nobody else than a store can answer.
func (o *Options) OnlyStore() bool {
	if len(o.Sources) == 0 {
		return false
	}
	return !slices.Equal(o.Sources, []string{machine.LogJournal}) && !(o.Pod != "" && slices.Equal(o.Sources, []string{machine.LogPod}))
}

// Question is what each node is asked, without units.
func (o *Options) Question(now time.Time) (q nodeapi.Logs, err error) {
	q = nodeapi.Logs{Lines: o.Lines, Follow: o.Follow, Grep: o.Grep, Pod: o.Pod}
	most := nodeapi.MaxLines
	if o.Several && !o.Direct && !o.Follow {
		most = nodeapi.MaxStoreLines
	}
	if q.Lines < 0 || q.Lines > most {
		return q, fmt.Errorf("%d lines cannot be asked for; choose 0 to %d", q.Lines, most)
	}
	for _, s := range o.Sources {
		if !slices.Contains(machine.LogSources(), s) {
			return q, fmt.Errorf("%.64q is not a source of logs; choose from %s", s, strings.Join(machine.LogSources(), ", "))
		}
	}
	if o.Since != "" {
		if q.Since, err = moment.Parse(o.Since, now); err != nil {
			return q, fmt.Errorf("--since: %w", err)
		}
	}
	if (o.Since != "" || o.Around != "") && !o.LinesGiven {
		q.Lines = most
	}
	if o.Until != "" {
		if q.Until, err = moment.Parse(o.Until, now); err != nil {
			return q, fmt.Errorf("--until: %w", err)
		}
	}
	if o.Priority != "" {
		if q.Priority, err = nodeapi.ParsePriority(o.Priority); err != nil {
			return q, err
		}
	}
	if _, err = nodeapi.ParseGrep(o.Grep); err != nil {
		return q, err
	}
	if o.Boot != "" {
		if q.Boot, err = nodeapi.ParseBoot(o.Boot); err != nil {
			return q, err
		}
	}
	if !q.Until.IsZero() && !q.Since.Before(q.Until) {
		return q, fmt.Errorf("--until %s is not behind --since %s", o.Until, o.Since)
	}
	_, err = nodeapi.ParseLogs(direct(q).Values()) // Such as --follow with --until.
	return q, err
}

// ofUnits tells whether units can be chosen of what is asked for.
func (o *Options) ofUnits() bool {
	return o.Pod == "" && (len(o.Sources) == 0 || slices.Contains(o.Sources, machine.LogJournal))
}

// direct is a question for a node itself, which answers with fewer lines than a store.
func direct(q nodeapi.Logs) nodeapi.Logs {
	q.Lines = min(q.Lines, nodeapi.MaxLines)
	return q
}

// Ask is what one node is asked.
type Ask struct {
	node string
	nodeapi.Logs
}

// Asks are the nodes that were chosen, each with its units: those of the options where there may be several, and else
// units.
func (o *Options) Asks(c *fleet.Cluster, q nodeapi.Logs, units []string) ([]Ask, error) {
	names := o.Units
	if !o.Several {
		names = units
	}
	units, err := unitsOf(c, names)
	if err != nil {
		return nil, err
	}
	for _, r := range o.Roles {
		if len(c.Facts.Members[r]) == 0 {
			return nil, fmt.Errorf("no node has the role %.64q; see the roles with `spore status`", r)
		}
	}
	var out []Ask
	for _, n := range c.Nodes {
		a := Ask{node: n.Name, Logs: q}
		own := units
		if len(o.Roles) > 0 {
			var has []string
			for _, r := range o.Roles {
				if slices.Contains(c.Facts.Members[r], n.Name) {
					has = append(has, r)
				}
			}
			if len(has) == 0 {
				continue
			}
			if len(names) == 0 && o.ofUnits() {
				// Without units, the question would be for the journal of all.
				if own = unitsOfRoles(c, has); len(own) == 0 {
					return nil, fmt.Errorf("%s runs no unit for the role %s; name units with --unit", n.Name, strings.Join(has, ", "))
				}
			}
		}
		if len(own) > 0 {
			a.Unit, a.More = own[0], own[1:]
		}
		out = append(out, a)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("none of %s has the role %s", strings.Join(facts.Names(c.Nodes), ", "), strings.Join(o.Roles, ", "))
	}
	return out, nil
}

// unitsOf are the full names of units; the name of a role of roles/ stands for those of its logs.
func unitsOf(c *fleet.Cluster, names []string) ([]string, error) {
	var out []string
	for _, name := range names {
		full, err := nodeapi.UnitName(name)
		if err != nil {
			return nil, err
		}
		if units := roleUnits(c, name); len(units) > 0 {
			out = append(out, units...)
			continue
		}
		out = append(out, full)
	}
	return out, nil
}

// roleUnits are the units whose journal belongs to a role that the configuration has of its own.
func roleUnits(c *fleet.Cluster, name string) []string {
	own, _ := services.Of(&c.Facts).Own(name)
	d, ok := own.(*role.Definition)
	if !ok {
		return nil
	}
	return d.LogUnits()
}

// unitsOfRoles are the units of roles; a template stands for all its instances.
func unitsOfRoles(c *fleet.Cluster, roles []string) []string {
	list := services.Of(&c.Facts)
	var out []string
	for _, r := range roles {
		if units := roleUnits(c, r); len(units) > 0 {
			out = append(out, units...)
			continue
		}
		if row, ok := list.Lookup(r); ok {
			for _, p := range services.RolePrograms(&c.Facts, row) {
				out = append(out, p.Unit)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
