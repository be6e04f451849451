package kraft

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// retryEvery is how often something that waits for Kafka asks again.
	retryEvery = time.Second
	// sayEvery is how often it says why it goes on.
	sayEvery = 30 * time.Second
)

// Kinds of endpoints (KIP-919).
const (
	brokers     = 1
	controllers = 2
)

// BrokerReady tells by its error why the broker with a node.id does not serve yet: it serves when the controllers have let
// it in, which is when it has caught up with them.
func BrokerReady(ctx context.Context, c *Conn, id int32) error {
	r, err := c.describe(ctx, brokers)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(r.Brokers, func(b kmsg.DescribeClusterResponseBroker) bool { return b.NodeID == id }) {
		return errors.New("the controllers have not let this broker in yet")
	}
	return nil
}

// ControllerReady tells by its error why a controller does not serve yet: it does when it knows a leader.
func ControllerReady(ctx context.Context, c *Conn) error {
	r, err := c.describe(ctx, controllers)
	if err != nil {
		return err
	}
	if r.ControllerID < 0 {
		return errors.New("the controllers have no leader yet; most of them are needed")
	}
	return nil
}

func (c *Conn) describe(ctx context.Context, kind int8) (*kmsg.DescribeClusterResponse, error) {
	q := kmsg.NewPtrDescribeClusterRequest()
	q.Version, q.EndpointType = 2, kind
	answer, err := c.ask(ctx, q)
	if err != nil {
		return nil, err
	}
	r := answer.(*kmsg.DescribeClusterResponse)
	return r, failure("describe the cluster", r.ErrorCode, r.ErrorMessage)
}

// failure is an error code of the protocol as an error. Codes have names in the protocol guide.
func failure(what string, code int16, message *string) error {
	if code == 0 {
		return nil
	}
	text := "no message"
	if message != nil && *message != "" {
		text = *message
	}
	return fmt.Errorf("%s: Kafka's error %d: %s", what, code, text)
}

// Await tries again and again until there is no error, and says what it waits for. It ends with the context.
func Await(ctx context.Context, what string, say func(string), try func(context.Context) error) error {
	var said time.Time
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if time.Since(said) >= sayEvery {
			say(fmt.Sprintf("waiting for %s: %v", what, err))
			said = time.Now()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w: %w", what, ctx.Err(), err)
		case <-time.After(retryEvery):
		}
	}
}
