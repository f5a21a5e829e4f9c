package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Plugin offers the cards of one resource to the kubelet.
type Plugin struct {
	deviceplugin.UnimplementedDevicePluginServer

	resource  Resource
	pciRoot   string
	directory string
	interval  time.Duration
	log       *slog.Logger

	mutex   sync.Mutex
	devices []*deviceplugin.Device
	changed chan struct{} // closed and replaced at each change
}

// NewPlugin makes a plugin; Run starts it.
//
// directory is the kubelet's for device plugins; interval is how often cards and the kubelet are looked at.
func NewPlugin(resource Resource, pciRoot, directory string, interval time.Duration, log *slog.Logger) *Plugin {
	return &Plugin{
		resource: resource, pciRoot: pciRoot, directory: directory, interval: interval,
		log:     log.With("resource", resource.Name),
		changed: make(chan struct{}),
	}
}

func (p *Plugin) socket() string {
	name := strings.NewReplacer("/", "-", ".", "-").Replace(p.resource.Name)
	return filepath.Join(p.directory, "strata-"+name+".sock")
}

// Run serves and registers until ctx ends, and again whenever the kubelet was restarted.
func (p *Plugin) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := p.serve(ctx)
		if err == nil {
			continue // the kubelet is back and waits for the registration
		}
		p.log.Error("will try again", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(p.interval):
		}
	}
	return ctx.Err()
}

// serve ends without an error when the kubelet was restarted: it removes every plugin's socket.
func (p *Plugin) serve(ctx context.Context) error {
	if err := p.scan(); err != nil {
		return err
	}
	if err := os.Remove(p.socket()); err != nil && !os.IsNotExist(err) {
		return err
	}
	listener, err := net.Listen("unix", p.socket())
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	deviceplugin.RegisterDevicePluginServer(server, p)
	defer server.Stop()
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	own, err := os.Stat(p.socket())
	if err != nil {
		return err
	}
	kubelet, err := p.register(ctx)
	if err != nil {
		return err
	}
	p.log.Info("registered", "devices", len(p.snapshot()))
	ticker := time.NewTicker(p.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case <-ticker.C:
		}
		if !sameFile(p.socket(), own) || !sameFile(p.kubeletSocket(), kubelet) {
			p.log.Info("the kubelet was restarted")
			return nil
		}
		if err := p.scan(); err != nil {
			p.log.Error("cannot look for cards", "error", err)
		}
	}
}

func sameFile(path string, before os.FileInfo) bool {
	now, err := os.Stat(path)
	return err == nil && os.SameFile(before, now) && before.ModTime().Equal(now.ModTime())
}

func (p *Plugin) kubeletSocket() string {
	return filepath.Join(p.directory, "kubelet.sock")
}

// register tells the kubelet where the plugin listens; returns the socket that it was told through.
func (p *Plugin) register(ctx context.Context) (os.FileInfo, error) {
	kubelet, err := os.Stat(p.kubeletSocket())
	if err != nil {
		return nil, fmt.Errorf("the kubelet's socket: %w", err)
	}
	connection, err := grpc.NewClient("unix://"+p.kubeletSocket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err = deviceplugin.NewRegistrationClient(connection).Register(ctx, &deviceplugin.RegisterRequest{
		Version:      deviceplugin.Version,
		Endpoint:     filepath.Base(p.socket()),
		ResourceName: p.resource.Name,
		Options:      &deviceplugin.DevicePluginOptions{},
	})
	if err != nil {
		return nil, fmt.Errorf("the kubelet refuses the registration: %w", err)
	}
	return kubelet, nil
}

// scan looks for the cards and wakes up those who watch where something changed.
func (p *Plugin) scan() error {
	cards, err := Find(p.pciRoot, p.resource.Devices)
	if err != nil {
		return err
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	merged := Merge(p.devices, cards)
	if !slices.EqualFunc(p.devices, merged, equal) {
		p.log.Info("cards", "devices", describe(merged))
		p.devices = merged
		close(p.changed)
		p.changed = make(chan struct{})
	}
	return nil
}

func equal(a, b *deviceplugin.Device) bool {
	return a.ID == b.ID && a.Health == b.Health
}

func describe(devices []*deviceplugin.Device) []string {
	texts := make([]string, 0, len(devices))
	for _, device := range devices {
		texts = append(texts, device.ID+" "+device.Health)
	}
	return texts
}

func (p *Plugin) snapshot() []*deviceplugin.Device {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.devices
}

// GetDevicePluginOptions is called by the kubelet after the registration.
func (p *Plugin) GetDevicePluginOptions(context.Context, *deviceplugin.Empty) (*deviceplugin.DevicePluginOptions, error) {
	return &deviceplugin.DevicePluginOptions{}, nil
}

// ListAndWatch sends the cards at once and at each change.
func (p *Plugin) ListAndWatch(_ *deviceplugin.Empty, stream grpc.ServerStreamingServer[deviceplugin.ListAndWatchResponse]) error {
	for {
		p.mutex.Lock()
		devices, changed := p.devices, p.changed
		p.mutex.Unlock()
		if err := stream.Send(&deviceplugin.ListAndWatchResponse{Devices: devices}); err != nil {
			return err
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-changed:
		}
	}
}

// Allocate shows each container its cards: their addresses in a variable, and their directories read-only where they are not in /sys.
func (p *Plugin) Allocate(_ context.Context, request *deviceplugin.AllocateRequest) (*deviceplugin.AllocateResponse, error) {
	devices := p.snapshot()
	response := &deviceplugin.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		addresses := slices.Sorted(slices.Values(container.DevicesIds))
		answer := &deviceplugin.ContainerAllocateResponse{
			Envs: map[string]string{p.resource.Environment: strings.Join(addresses, ",")},
		}
		for _, address := range addresses {
			healthy := slices.ContainsFunc(devices, func(d *deviceplugin.Device) bool {
				return d.ID == address && d.Health == deviceplugin.Healthy
			})
			if !healthy {
				return nil, status.Errorf(codes.NotFound, "%s %s is not on this node", p.resource.Name, address)
			}
			if strings.HasPrefix(p.pciRoot, "/sys/") {
				continue // every container has its own view of /sys
			}
			directory := filepath.Join(p.pciRoot, address)
			answer.Mounts = append(answer.Mounts, &deviceplugin.Mount{
				HostPath: directory, ContainerPath: directory, ReadOnly: true,
			})
		}
		response.ContainerResponses = append(response.ContainerResponses, answer)
	}
	return response, nil
}
