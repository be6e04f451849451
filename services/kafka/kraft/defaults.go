package kraft

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// SetDefaults makes settings of the whole cluster what they are in want, and returns those that were others. It is for what
// the controllers keep in the metadata, where it counts for more than a broker's configuration: min.insync.replicas, of
// which they take the first value that they see (KIP-966).
func (c *Conn) SetDefaults(ctx context.Context, want map[string]string) (changed []string, err error) {
	have, err := c.defaults(ctx)
	if err != nil {
		return nil, err
	}
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType = kmsg.ConfigResourceTypeBroker // of no name: of all
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if value, ok := have[name]; ok && value == want[name] {
			continue
		}
		s := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		s.Name, s.Value, s.Op = name, kmsg.StringPtr(want[name]), kmsg.IncrementalAlterConfigOpSet
		r.Configs = append(r.Configs, s)
		changed = append(changed, name)
	}
	if len(changed) == 0 {
		return nil, nil
	}
	q := kmsg.NewPtrIncrementalAlterConfigsRequest()
	q.Version, q.Resources = 1, append(q.Resources, r)
	answer, err := c.ask(ctx, q)
	if err != nil {
		return nil, err
	}
	for _, r := range answer.(*kmsg.IncrementalAlterConfigsResponse).Resources {
		if err := failure(fmt.Sprintf("set %v", changed), r.ErrorCode, r.ErrorMessage); err != nil {
			return nil, err
		}
	}
	return changed, nil
}

// defaults are the settings of the whole cluster that the metadata has.
func (c *Conn) defaults(ctx context.Context) (map[string]string, error) {
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType = kmsg.ConfigResourceTypeBroker
	q := kmsg.NewPtrDescribeConfigsRequest()
	q.Version, q.Resources = 4, append(q.Resources, r)
	answer, err := c.ask(ctx, q)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, r := range answer.(*kmsg.DescribeConfigsResponse).Resources {
		if err := failure("read the settings of the cluster", r.ErrorCode, r.ErrorMessage); err != nil {
			return nil, err
		}
		for _, s := range r.Configs {
			if s.Source == kmsg.ConfigSourceDynamicDefaultBrokerConfig && s.Value != nil {
				out[s.Name] = *s.Value
			}
		}
	}
	return out, nil
}
