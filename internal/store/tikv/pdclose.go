// SPDX-License-Identifier: Apache-2.0

package tikv

import (
	"fmt"

	pd "github.com/tikv/pd/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// closeLate closes a connection that a PD client has made after it was closed. When it is opened it
// starts a goroutine that connects to PD's leader for a stream of resource tokens, and does not wait for
// that when it is closed: if this follows at once, the connection would stay, and try again for ever.
//
// A closed connection in its place is what that goroutine finds from now on.
func closeLate(client pd.Client) error {
	inner, ok := client.(interface{ GetServiceDiscovery() pd.ServiceDiscovery })
	if !ok {
		return fmt.Errorf("a PD client of type %T does not say what connections it has", client)
	}
	closed, err := grpc.NewClient("passthrough:///closed", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	if err := closed.Close(); err != nil {
		return err
	}
	discovery := inner.GetServiceDiscovery()
	if late, ok := discovery.GetClientConns().Swap(discovery.GetServingAddr(), closed); ok {
		return late.(*grpc.ClientConn).Close()
	}
	return nil
}
