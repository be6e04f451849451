package ceph

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"spore/services/ceph/cephx"
)

// Options are what the bootstrap works with.
type Options struct {
	Client Client
	Want   Want
	// Say writes a line for people, Status what is being done or waited for.
	Say, Status func(string)
	// Pause is the time between two tries, five seconds when 0.
	Pause time.Duration
}

// Bootstrap gives a storage cluster what is wanted, and returns when it has all of it. It can be run again at any time and
// by several nodes at once: what is there already is left alone.
func Bootstrap(ctx context.Context, o Options) error {
	if o.Pause == 0 {
		o.Pause = 5 * time.Second
	}
	say := func(text string) {
		o.Status(text)
		o.Say(text)
	}
	o.Status("asks the monitors what they have")
	return again(ctx, o.Pause, say, "waits for the monitors and tries again", func() error { return o.once(ctx) })
}

// rounds is how often the changes are looked for: one round makes them, the next sees whether they hold. Another node may
// have been at it at the same time.
const rounds = 3

// once makes the changes that are missing, and looks whether they hold.
func (o Options) once(ctx context.Context) error {
	said := ""
	for round := 1; ; round++ {
		have, err := ReadHave(ctx, o.Client)
		if err != nil {
			return err
		}
		changes, err := Changes(o.Want, have)
		if err != nil {
			return err
		}
		switch {
		case len(changes) == 0:
			o.strangers(have)
			return nil
		case round == rounds:
			return fmt.Errorf("what was applied did not stay, beginning with %s: %s", changes[0].What, said)
		}
		if said, err = o.apply(ctx, changes); err != nil {
			return err
		}
	}
}

// apply gives the commands of changes, whose success the next look tells, and returns what was said of those that failed.
func (o Options) apply(ctx context.Context, changes []Change) (string, error) {
	var names []string
	var keyring []byte
	var commands [][]string
	for _, c := range changes {
		names = append(names, c.What)
		keyring = append(keyring, c.Keyring...)
		if c.Args != nil {
			commands = append(commands, c.Args)
		}
	}
	text := "applies " + strings.Join(names, ", ")
	o.Status(text)
	o.Say(text)
	if len(keyring) > 0 {
		if err := o.Client.Command(ctx, keyring, "auth", "import", "-i", "-"); err != nil {
			return "", err
		}
	}
	if len(commands) == 0 {
		return "", nil
	}
	_, said, err := o.Client.Batch(ctx, commands)
	return said, err
}

// strangers tells of monitors, and of keys of nodes, that are not in cluster.yaml. They are not removed: the node may
// have the older configuration. Each monitor that is gone for good costs the others a vote, and a key that nobody has
// any more opens all the same.
func (o Options) strangers(h Have) {
	gone := slices.DeleteFunc(slices.Clone(h.Monitors), func(name string) bool { return slices.Contains(o.Want.Monitors, name) })
	if len(gone) > 0 {
		o.Say(fmt.Sprintf("the map of monitors has %s, which cluster.yaml does not know; when they are gone for good, remove each with `ceph mon rm NAME`", strings.Join(gone, ", ")))
	}
	var users []string
	for name := range h.Entities {
		wanted := slices.ContainsFunc(o.Want.Entities, func(e Entity) bool { return e.Name == name })
		// Without a node it is that of an older Spore, which all nodes of Kubernetes shared: they may work with it still.
		for _, kind := range []string{cephx.OSD, cephx.RBD, cephx.CephFS} {
			if !wanted && (name == kind || strings.HasPrefix(name, kind+".")) {
				users = append(users, name)
			}
		}
	}
	if slices.Sort(users); len(users) > 0 {
		o.Say(fmt.Sprintf("Ceph takes the keys of %s, which no node of cluster.yaml has; when no machine works with them any more, remove each with `ceph auth rm NAME`", strings.Join(users, ", ")))
	}
}
