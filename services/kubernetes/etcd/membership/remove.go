package membership

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"spore/services/kubernetes"
	"spore/services/kubernetes/etcd/client"
	"spore/services/kubernetes/etcd/master"
	"spore/services/kubernetes/etcd/member"
)

// RemoveOptions say who is removed.
type RemoveOptions struct {
	// Name is the member's.
	Name string
	// Yes does it; otherwise it is only said.
	Yes bool
}

// Remove takes a member out of etcd that is lost for good, for those who want the others to be a smaller quorum until
// the master is replaced. A master that starts without data joins by itself, and needs none of this.
func Remove(ctx context.Context, m *master.Machine, out io.Writer, o RemoveOptions) error {
	c, n, err := m.Master()
	if err != nil {
		return err
	}
	if o.Name == n.Name {
		return fmt.Errorf("%s cannot take itself out of etcd; ask another master", n.Name)
	}
	own, err := m.Connect(c, client.Own)
	if err != nil {
		return err
	}
	defer own.Close()
	found, err := client.Members(ctx, own, kubernetes.Of(c.Services).Slow())
	if err != nil {
		return fmt.Errorf("ask etcd for its members: %w", err)
	}
	named := func(m member.Member) bool { return m.Name == o.Name }
	if slices.Contains(kubernetes.EtcdQuorum().Initial(c), o.Name) && !slices.ContainsFunc(found.Members, named) {
		// By an order whose answer nobody heard, or it has not joined yet.
		fmt.Fprintf(out, "%s is no member of etcd; it joins when it starts without its former data\n", o.Name)
		return nil
	}
	gone, err := removable(found.Members, o.Name)
	if err != nil {
		return err
	}
	left, serve := without(found.Members, gone.ID)
	fmt.Fprintf(out, "%s (%016x) is taken out of etcd; %d of %d members serve then\n", o.Name, gone.ID, serve, left)
	if !o.Yes {
		return errors.New("nothing was changed; if that is what you want, say the same with --yes")
	}
	if _, err := own.MemberRemove(ctx, gone.ID); err != nil && !errors.Is(err, rpctypes.ErrMemberNotFound) {
		return fmt.Errorf("remove %s: %w", o.Name, client.Reason(err))
	}
	fmt.Fprintf(out, "%s is no member of etcd any more; it joins again when it starts without its former data\n", o.Name)
	return nil
}

// removable is the member with a name, if it may go.
func removable(members []member.Member, name string) (member.Member, error) {
	var gone member.Member
	for _, m := range members {
		if m.Name == name || fmt.Sprintf("%016x", m.ID) == name { // One that never ran has no name yet.
			gone = m
		}
	}
	if gone.ID == 0 {
		return gone, fmt.Errorf("etcd has no member %.64q", name)
	}
	left, serve := without(members, gone.ID)
	switch {
	case left == 0:
		return gone, fmt.Errorf("%s is the only member of etcd that votes", name)
	case serve < left/2+1:
		return gone, fmt.Errorf("of the %d members that are left %d serve, and a majority is %d; bring another one back first, or restore", left, serve, left/2+1)
	}
	return gone, nil
}

// without counts the voters that are left without a member, and those of them that serve.
func without(members []member.Member, id uint64) (left, serve int) {
	for _, m := range members {
		if m.ID == id || m.Learner {
			continue
		}
		left++
		if m.Problem == "" {
			serve++
		}
	}
	return left, serve
}
