package membership

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// listsPrefix is where each master keeps in etcd who the masters are by its configuration, as JSON. All keys of ours begin with
// /spore/.
const listsPrefix = "/spore/masters/"

// readLists reads what the masters say, by their names.
func readLists(ctx context.Context, c *clientv3.Client) (map[string][]string, error) {
	answer, err := c.Get(ctx, listsPrefix, clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, kv := range answer.Kvs {
		var list []string
		// What is no list is of a release that has another one: as if it had said nothing.
		if json.Unmarshal(kv.Value, &list) == nil {
			out[strings.TrimPrefix(string(kv.Key), listsPrefix)] = list
		}
	}
	return out, nil
}

// writeList keeps what this master says.
func writeList(ctx context.Context, c *clientv3.Client, name string, masters []string, lists map[string][]string) error {
	if list, ok := lists[name]; ok && slices.Equal(list, masters) {
		return nil
	}
	data, err := json.Marshal(masters)
	if err != nil {
		return err
	}
	_, err = c.Put(ctx, listsPrefix+name, string(data))
	return err
}
