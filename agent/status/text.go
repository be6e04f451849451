package status

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"spore/agent/clock"
	"spore/agent/delivery"
	"spore/agent/firmware"
	"spore/agent/paths"
	"spore/agent/sealed"
	"spore/agent/slot"
	"spore/agent/watchdog"
	"spore/storage/atomicfile"
	"spore/wire/nodeapi"
)

// configurationText says which configuration runs.
func configurationText(i slot.Info) string {
	out := fmt.Sprintf("%.16s…", i.ClusterHash)
	if i.Serial > 0 {
		out = fmt.Sprintf("%d, %s", i.Serial, out)
	}
	if i.Trial {
		out += ", on trial"
	}
	if i.Staged != "" {
		when := "at the next start"
		if i.Live {
			when = "in effect already, and at the next start"
		}
		with := ""
		if i.StagedRoot != "" {
			with = fmt.Sprintf(" with the root %.16s…", i.StagedRoot)
		}
		out += fmt.Sprintf("; %.16s…%s %s", i.Staged, with, when)
	}
	return out
}

// Text is a status line for people.
func Text(l Line) string {
	var b strings.Builder
	row := func(name, format string, a ...any) { fmt.Fprintf(&b, "%-10s %s\n", name, fmt.Sprintf(format, a...)) }
	if l.Matched != nil {
		row("node", "%s of cluster %s, by %s %s", l.Node, l.Cluster, l.Matched.By, l.Matched.Value)
	} else {
		row("node", "none of cluster %s", l.Cluster)
	}
	if c := l.NoCloud; c != nil {
		row("nocloud", "%s", noCloudText(*c))
	}
	row("system", "%s", l.System)
	row("roles", "%s", cmp.Or(strings.Join(l.Roles, ", "), "none"))
	for _, h := range l.Held {
		row("held", "%s: %s", h.Role, h.Reason)
	}
	for _, service := range slices.Sorted(maps.Keys(l.Waiting)) {
		row("waiting", "%s: %s", service, l.Waiting[service])
	}
	for _, f := range l.Failed {
		row("failed", "%s", f)
	}
	if l.State != nil {
		row("state", "%s %s", l.State.Kind, l.State.Device)
		if l.State.Warning != "" {
			row("", "%s", l.State.Warning)
		}
	}
	if l.Bundle != nil {
		row("bundle", "%s", bundleText(*l.Bundle))
		if l.Bundle.Problem != "" {
			row("", "%s", l.Bundle.Problem)
		}
	}
	if l.Configuration != nil {
		row("image", "%s", nodeapi.Version(l.Configuration.RootHash, l.BuildTime))
		row("config", "%s", configurationText(*l.Configuration))
		if l.Configuration.Problem != "" {
			row("", "%s", l.Configuration.Problem)
		}
		if l.Configuration.Loader != "" {
			row("", "%s", l.Configuration.Loader)
		}
	}
	if l.Updates != nil {
		row("updates", "%s", l.Updates.Text())
	}
	if l.Firmware != nil {
		row("firmware", "%s", firmwareText(*l.Firmware))
	}
	if l.Watchdog != nil {
		row("watchdog", "%s", watchdogText(*l.Watchdog))
	}
	for _, s := range l.Shells {
		row("shell", "%s", s.Text())
	}
	if l.Clock != nil {
		row("clock", "%s", clockText(*l.Clock))
	}
	row("addresses", "%s", cmp.Or(strings.Join(l.Addresses, ", "), "none"))
	for _, c := range l.Conflicts {
		row("conflict", "%s is used by %s", c.IP, c.MAC)
	}
	if l.Problem != "" {
		row("problem", "%s", l.Problem)
	}
	return b.String()
}

// bundleText says where the secrets are from and how they are kept.
func bundleText(b delivery.Info) string {
	if b.Serial == 0 {
		return "none"
	}
	kept := map[string]string{sealed.TPM: "sealed to the TPM", sealed.Host: "sealed to the host key", "": "in memory only"}[b.Sealed]
	from := map[string]string{
		delivery.State: "state partition", delivery.Firmware: "firmware", delivery.Medium: "boot medium", delivery.Network: "network",
		delivery.NoCloud: "user-data of NoCloud",
	}[b.From]
	return fmt.Sprintf("%d, from the %s, %s", b.Serial, from, kept)
}

// noCloudText says what a hypervisor said, and which of it nobody takes.
func noCloudText(c NoCloud) string {
	text := strings.Join(c.From, ", ")
	if c.Problem != "" {
		text = c.Problem
	}
	if len(c.NotTaken) > 0 {
		text += "; not taken: " + strings.Join(c.NotTaken, ", ")
	}
	return strings.TrimPrefix(text, "; ")
}

// clockText says who keeps the clock.
func clockText(c clock.State) string {
	switch {
	case c.Problem != "":
		return c.Problem
	case c.Synchronized:
		return "kept by " + cmp.Or(c.From, c.By, "a time server that does not answer now")
	}
	return "not kept by a time server"
}

// firmwareText says what the machine was started by.
func firmwareText(f firmware.Info) string {
	out := "Secure Boot off"
	switch {
	case f.SecureBoot:
		out = "Secure Boot on"
	case f.SetupMode:
		out = "Secure Boot off, no keys enrolled"
	}
	if f.Lockdown != "" {
		out += ", kernel lockdown " + f.Lockdown
	}
	if f.PCR11 != "" {
		out += ", PCR 11 " + f.PCR11
	}
	return out
}

// watchdogText says which watchdog there is.
func watchdogText(w watchdog.Info) string {
	out := cmp.Or(w.Identity, "without a name")
	if w.Held {
		out += fmt.Sprintf(", restarts the machine when it hangs for %d s", w.Seconds)
	} else {
		out += ", not in use"
	}
	if w.HasReset {
		out += "; it has done so before this start"
	}
	return out
}

// Missing is the error of a line that could not be read.
func Missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("there is no status yet: spore-agent.service has not run in this boot")
	}
	return err
}

// Show is the last status line, for people or as JSON.
func Show(root paths.Root, asJSON bool) (string, error) {
	if asJSON {
		data, err := atomicfile.ReadLimited(root.At(paths.Status), 1<<20)
		if err != nil {
			return "", Missing(err)
		}
		return string(data), nil
	}
	var l Line
	if err := atomicfile.ReadJSON(root.At(paths.Status), &l); err != nil {
		return "", Missing(err)
	}
	return Text(l), nil
}

// Last reads the last status line.
func Last(root paths.Root) (Line, error) {
	var l Line
	data, err := atomicfile.ReadLimited(root.At(paths.Status), 1<<20)
	if err == nil {
		err = json.Unmarshal(data, &l)
	}
	if err != nil {
		return l, fmt.Errorf("read %s: %w", filepath.Base(paths.Status), err)
	}
	return l, nil
}
