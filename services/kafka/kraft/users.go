package kraft

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"spore/services/kafka"
)

// scramSHA512 is the mechanism's number in the protocol (KIP-554).
const scramSHA512 = 2

// clusterResource is the only name of a resource of the kind cluster.
const clusterResource = "kafka-cluster"

// Rule allows one operation of one user on one resource, or on all whose names begin with Name.
type Rule struct {
	Kind      kmsg.ACLResourceType
	Pattern   kmsg.ACLResourcePatternType
	Name      string
	Principal string
	Host      string
	Operation kmsg.ACLOperation
	Allow     kmsg.ACLPermissionType
}

// operations are those of the protocol by their names in kafka.yaml.
var operations = map[string]kmsg.ACLOperation{
	"all": kmsg.ACLOperationAll, "read": kmsg.ACLOperationRead, "write": kmsg.ACLOperationWrite, "create": kmsg.ACLOperationCreate,
	"delete": kmsg.ACLOperationDelete, "alter": kmsg.ACLOperationAlter, "describe": kmsg.ACLOperationDescribe,
	"describe-configs": kmsg.ACLOperationDescribeConfigs, "alter-configs": kmsg.ACLOperationAlterConfigs,
	"idempotent-write": kmsg.ACLOperationIdempotentWrite,
}

// Rules returns what kafka.yaml allows, sorted.
func Rules(users []kafka.User) ([]Rule, error) {
	all := map[Rule]bool{}
	for _, u := range users {
		for _, a := range u.ACL {
			r := Rule{Pattern: kmsg.ACLResourcePatternTypeLiteral, Principal: "User:" + u.Name, Host: "*", Allow: kmsg.ACLPermissionTypeAllow}
			switch {
			case a.Topic != "":
				r.Kind, r.Name = kmsg.ACLResourceTypeTopic, a.Topic
			case a.Group != "":
				r.Kind, r.Name = kmsg.ACLResourceTypeGroup, a.Group
			case a.TransactionalID != "":
				r.Kind, r.Name = kmsg.ACLResourceTypeTransactionalId, a.TransactionalID
			case a.Cluster:
				r.Kind, r.Name = kmsg.ACLResourceTypeCluster, clusterResource
			default:
				return nil, fmt.Errorf("kafka.yaml: an entry of the user %s is about nothing", u.Name)
			}
			if a.Prefix {
				r.Pattern = kmsg.ACLResourcePatternTypePrefixed
			}
			for _, name := range a.Operations {
				o, ok := operations[name]
				if !ok {
					return nil, fmt.Errorf("kafka.yaml: the operation %q of the user %s is unknown", name, u.Name)
				}
				r.Operation = o
				all[r] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(all), compareRules), nil
}

func compareRules(a, b Rule) int {
	return cmp.Or(cmp.Compare(a.Principal, b.Principal), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Pattern, b.Pattern),
		cmp.Compare(a.Host, b.Host), cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Allow, b.Allow))
}

// Done says what Apply changed.
type Done struct {
	// Users is how many passwords were set, Dropped whose were taken away.
	Users   int
	Dropped []string
	// Allowed and Withdrawn count rules.
	Allowed, Withdrawn int
}

// Apply makes the cluster's users and rules exactly the given ones: what is not given is taken away, whoever made it.
// Passwords are set anew each time, since nobody can ask for the ones that are there. What is allowed comes before the users
// whom it is for, and what is withdrawn goes last, so that nobody who stays is without rights in between.
func (c *Conn) Apply(ctx context.Context, users map[string]Credential, rules []Rule) (Done, error) {
	var done Done
	have, err := c.rules(ctx)
	if err != nil {
		return done, err
	}
	add, remove := difference(rules, have), difference(have, rules)
	if err := c.allow(ctx, add); err != nil {
		return done, err
	}
	done.Allowed = len(add)
	if done.Users, done.Dropped, err = c.setUsers(ctx, users); err != nil {
		return done, err
	}
	if err := c.withdraw(ctx, remove); err != nil {
		return done, err
	}
	done.Withdrawn = len(remove)
	return done, nil
}

// difference returns what is in a and not in b.
func difference(a, b []Rule) []Rule {
	var out []Rule
	for _, r := range a {
		if !slices.Contains(b, r) {
			out = append(out, r)
		}
	}
	return out
}

// rules lists all rules of the cluster, denials included.
func (c *Conn) rules(ctx context.Context) ([]Rule, error) {
	q := kmsg.NewPtrDescribeACLsRequest()
	q.Version = 3
	q.ResourceType, q.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
	q.Operation, q.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	answer, err := c.ask(ctx, q)
	if err != nil {
		return nil, err
	}
	r := answer.(*kmsg.DescribeACLsResponse)
	if err := failure("list the rights", r.ErrorCode, r.ErrorMessage); err != nil {
		return nil, err
	}
	var out []Rule
	for _, res := range r.Resources {
		for _, a := range res.ACLs {
			out = append(out, Rule{res.ResourceType, res.ResourcePatternType, res.ResourceName, a.Principal, a.Host, a.Operation, a.PermissionType})
		}
	}
	return out, nil
}

func (c *Conn) allow(ctx context.Context, rules []Rule) error {
	if len(rules) == 0 {
		return nil
	}
	q := kmsg.NewPtrCreateACLsRequest()
	q.Version = 3
	for _, r := range rules {
		n := kmsg.NewCreateACLsRequestCreation()
		n.ResourceType, n.ResourcePatternType, n.ResourceName = r.Kind, r.Pattern, r.Name
		n.Principal, n.Host, n.Operation, n.PermissionType = r.Principal, r.Host, r.Operation, r.Allow
		q.Creations = append(q.Creations, n)
	}
	answer, err := c.ask(ctx, q)
	if err != nil {
		return err
	}
	results := answer.(*kmsg.CreateACLsResponse).Results
	return each("add", rules, len(results), func(i int) (int16, *string) { return results[i].ErrorCode, results[i].ErrorMessage })
}

func (c *Conn) withdraw(ctx context.Context, rules []Rule) error {
	if len(rules) == 0 {
		return nil
	}
	q := kmsg.NewPtrDeleteACLsRequest()
	q.Version = 3
	for _, r := range rules {
		f := kmsg.NewDeleteACLsRequestFilter()
		f.ResourceType, f.ResourcePatternType, f.ResourceName = r.Kind, r.Pattern, &r.Name
		f.Principal, f.Host, f.Operation, f.PermissionType = &r.Principal, &r.Host, r.Operation, r.Allow
		q.Filters = append(q.Filters, f)
	}
	answer, err := c.ask(ctx, q)
	if err != nil {
		return err
	}
	results := answer.(*kmsg.DeleteACLsResponse).Results
	return each("take away", rules, len(results), func(i int) (int16, *string) { return results[i].ErrorCode, results[i].ErrorMessage })
}

// each looks at what Kafka answers for each rule that it was asked to add or to take away.
func each(what string, rules []Rule, answers int, answer func(i int) (code int16, words *string)) error {
	if answers != len(rules) {
		return fmt.Errorf("%s rights: %d were asked for, and Kafka answers for %d", what, len(rules), answers)
	}
	for i, r := range rules {
		code, words := answer(i)
		if err := failure(what+" a right of "+r.Principal, code, words); err != nil {
			return err
		}
	}
	return nil
}

// setUsers sets the passwords of the given users and takes away those of all others.
func (c *Conn) setUsers(ctx context.Context, users map[string]Credential) (int, []string, error) {
	list := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
	answer, err := c.ask(ctx, list)
	if err != nil {
		return 0, nil, err
	}
	have := answer.(*kmsg.DescribeUserSCRAMCredentialsResponse)
	if err := failure("list the users", have.ErrorCode, have.ErrorMessage); err != nil {
		return 0, nil, err
	}
	q := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	var dropped []string
	for _, u := range have.Results {
		if err := failure("list the user "+u.User, u.ErrorCode, u.ErrorMessage); err != nil {
			return 0, nil, err
		}
		_, wanted := users[u.User]
		for _, info := range u.CredentialInfos {
			if wanted && info.Mechanism == scramSHA512 {
				continue
			}
			d := kmsg.NewAlterUserSCRAMCredentialsRequestDeletion()
			d.Name, d.Mechanism = u.User, info.Mechanism
			q.Deletions = append(q.Deletions, d)
		}
		if !wanted {
			dropped = append(dropped, u.User)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(users)) {
		s, cred := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion(), users[name]
		s.Name, s.Mechanism, s.Iterations, s.Salt, s.SaltedPassword = name, scramSHA512, cred.Iterations, cred.Salt, cred.Salted
		q.Upsertions = append(q.Upsertions, s)
	}
	if answer, err = c.ask(ctx, q); err != nil {
		return 0, nil, err
	}
	for _, r := range answer.(*kmsg.AlterUserSCRAMCredentialsResponse).Results {
		if err := failure("set the password of "+r.User, r.ErrorCode, r.ErrorMessage); err != nil {
			return 0, nil, err
		}
	}
	slices.Sort(dropped)
	return len(users), dropped, nil
}
