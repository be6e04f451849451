package boot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"spore/builder/rehearsal"
	"spore/cluster/facts"
	"spore/cluster/role"
	"spore/services"
	"spore/wire/nodeapi"
)

// answerSpare is how much longer than the tests of a role their answer may take.
const answerSpare = time.Minute

// tested are the roles of a node that have tests, in the order of its roles.
func tested(c *facts.Cluster, n *facts.Node) []*role.Definition {
	var out []*role.Definition
	for _, name := range n.Roles {
		own, _ := services.Of(c).Own(name)
		if d, ok := own.(*role.Definition); ok && len(d.Tests) > 0 {
			out = append(out, d)
		}
	}
	return out
}

// checkTests refuses --test where there is nothing to run: a test of nothing would pass.
func checkTests(c *facts.Cluster, machines []rehearsal.Machine) error {
	var names []string
	for _, m := range machines {
		if len(tested(c, m.Node)) > 0 {
			return nil
		}
		names = append(names, m.Node.Name)
	}
	return fmt.Errorf("--test: no role of %s has tests; write tests into roles/NAME.yaml, or leave --test out",
		strings.Join(names, ", "))
}

// runTests has each node run the tests of its roles, one after the other, and fails when one of them has.
func (s *session) runTests(ctx context.Context) error {
	var sum tally
	var errs []error
	for _, m := range s.machines {
		for _, d := range tested(s.cluster, m.plan.Node) {
			at := s.ends(m.plan.Node.Name, nodeapi.Port)
			if len(at) == 0 {
				errs = append(errs, fmt.Errorf("%s: no port of this host leads to the node's API", m.plan.Node.Name))
				break
			}
			if err := s.testRole(ctx, m.plan.Node.Name, at[0], d, &sum); err != nil {
				errs = append(errs, fmt.Errorf("%s: tests of %s: %w", m.plan.Node.Name, d.Name, err))
			}
			if ctx.Err() != nil {
				return errors.Join(append(errs, context.Cause(ctx))...)
			}
		}
	}
	if sum.failed > 0 {
		errs = append(errs, fmt.Errorf("%d of %d tests failed", sum.failed, sum.all))
	}
	return errors.Join(errs...)
}

// testsLimit is how long the tests of all roles may take, with what the answers may take beside.
func (s *session) testsLimit() time.Duration {
	var out time.Duration
	for _, m := range s.machines {
		out += time.Duration(len(tested(s.cluster, m.plan.Node))) * (role.TestsBound + answerSpare)
	}
	return out
}

// tally counts tests.
type tally struct{ all, failed int }

func (s *session) testRole(ctx context.Context, node, at string, d *role.Definition, sum *tally) error {
	ctx, cancel := context.WithTimeout(ctx, role.TestsBound+answerSpare)
	defer cancel()
	client := s.asker.client(at)
	body, err := client.Ask(ctx, node, nodeapi.Request{Method: http.MethodPost, Path: nodeapi.RoleTestsPath + d.Name})
	if err != nil {
		return err
	}
	defer body.Close()
	return s.tell(body, node, d, sum)
}

// tell tells of each test as it comes. An answer that breaks off is an error.
func (s *session) tell(body io.Reader, node string, d *role.Definition, sum *tally) error {
	told := 0
	n, err := nodeapi.ReadRoleTests(body, len(d.Tests), func(t nodeapi.RoleTest) {
		t.Command = d.Tests[told].Command // The node's word for it could hold anything.
		told++
		sum.all++
		if t.Problem != "" {
			sum.failed++
		}
		s.reporter.test(node, d.Name, t)
	})
	if err == nil && n < len(d.Tests) {
		err = fmt.Errorf("the node has run %d of %d, and says nothing more; the journal of %s@ there says why", n,
			len(d.Tests), d.TestName())
	}
	return err
}
