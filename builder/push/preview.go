package push

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"spore/services"
	"spore/services/dataversion"
	"spore/storage/pieces"
	"spore/wire/nodeapi"
	"spore/wire/update"
)

// Preview sends a node what it needs to say what an update would change, and no more: the head with both indexes.
// Whether it is to write nothing is said by Post.
func (s Sender) Preview(ctx context.Context, node string) (update.Answer, error) {
	message := bytes.Clone(s.Update.Signed)
	for _, b := range []update.Blob{s.Update.Head.Root.Index, s.Update.Head.Boot} {
		sum, err := pieces.ParseSum(b.SHA256)
		if err != nil {
			return update.Answer{}, fmt.Errorf("internal error: %w", err)
		}
		content, err := s.Update.Object(ctx, sum)
		if err != nil {
			return update.Answer{}, err
		}
		message = update.AppendObject(message, content)
	}
	return s.Post(ctx, node, bytes.NewReader(message))
}

// Outlook says what an update would change on a node with the roles that runs what its status says, by its answer to a
// dry run: sentences that begin behind the node's name.
func Outlook(l *services.List, h update.Head, roles []string, s nodeapi.Status, a update.Answer) []string {
	if a.Unchanged {
		return []string{"has it already: " + s.Version()}
	}
	var out []string
	c := &update.Change{}
	if a.Change != nil {
		*c = *a.Change
	}
	if c.From == nil {
		c.From = s.Versions
	}
	c.To = h.Root.Versions
	fresh := nodeapi.Version(h.RootHash, h.Root.BuildTime)
	if c.Root {
		out = append(out, fmt.Sprintf("would get another root: %s → %s", cmp.Or(s.Version(), "unknown"), fresh))
	} else {
		out = append(out, "would keep its root "+fresh)
	}
	out = append(out, versions(*c)...)
	if a.Lacks != nil {
		out = append(out, fmt.Sprintf("lacks %s pieces, %s", grouped(a.Lacks.Count), mebibytes(a.Lacks.Bytes)))
	} else {
		out = append(out, "lacks nothing")
	}
	if c.Loader {
		out = append(out, "would try another boot loader at the restart after the system has shown that it stays")
	}
	switch {
	case c.Root:
		out = append(out, "would run it from its next start on (--reboot)")
	case a.Live && len(a.Restarted) > 0:
		out = append(out, "would have it in effect at once, after a restart of "+strings.Join(a.Restarted, ", "))
	case a.Live:
		out = append(out, "would have it in effect at once, without a restart of any program")
	case len(a.Waits) > 0:
		out = append(out, "would run it from its next start on (--reboot), because of "+strings.Join(a.Waits, "; "))
	}
	return append(out, warnings(l, *c, roles)...)
}

// OutlookBack says what a node with the roles would return to.
func OutlookBack(l *services.List, roles []string, s nodeapi.Status, a update.Answer) []string {
	before := "the configuration before, on the same root"
	if s.Configuration != nil && s.Configuration.OtherRoot != "" {
		before = "the root " + nodeapi.Version(s.Configuration.OtherRoot, 0)
	}
	out := []string{fmt.Sprintf("would restart, and return from %s to %s", cmp.Or(s.Version(), "unknown"), before)}
	if a.Change == nil {
		return out
	}
	out = append(out, versions(*a.Change)...)
	for _, w := range l.WayBack(a.Change.From, a.Change.To, roles) {
		if w.Verdict != dataversion.Safe {
			out = append(out, "risks its data: "+w.String())
		}
	}
	return out
}

// versions are those of the services that keep data, where they differ.
func versions(c update.Change) []string {
	var out []string
	names := slices.AppendSeq(slices.Collect(maps.Keys(c.From)), maps.Keys(c.To))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if c.From[name] != c.To[name] {
			before, after := cmp.Or(c.From[name], "none"), cmp.Or(c.To[name], "none")
			out = append(out, fmt.Sprintf("would get another %s: %s → %s", name, before, after))
		}
	}
	return out
}

// warnings are what a person should know before a node with the roles takes an update.
func warnings(l *services.List, c update.Change, roles []string) []string {
	var out []string
	for _, risk := range c.Risks {
		out = append(out, "risks: "+risk)
	}
	if c.WayBack != "" {
		return append(out, "could not return to what runs now: "+c.WayBack)
	}
	for _, w := range l.WayBack(c.To, c.From, roles) {
		switch w.Verdict {
		case dataversion.Unsafe:
			out = append(out, "could not return to what runs now: "+w.String())
		case dataversion.Unknown:
			out = append(out, "may not be able to return to what runs now: "+w.String())
		}
	}
	return out
}
