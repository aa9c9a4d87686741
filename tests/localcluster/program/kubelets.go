package main

import (
	"context"
	"encoding/json"
	"flag"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

const (
	workers    = 32
	firstRetry = 50 * time.Millisecond
	lastRetry  = 2 * time.Second
	onNode     = "spec.nodeName"
)

// kubelets plays the kubelets of all nodes, except for their admission. It watches nodes and bound pods, and takes each
// object that changed, or whose time has come, through its next step (see steps.go).
//
// A step follows from the object alone, so a restart forgets nothing; and it is taken once, however often the object
// changes before the outcome is seen.
type kubelets struct {
	api   rest.Interface
	pods  cache.Indexer
	nodes cache.Indexer
	queue workqueue.TypedRateLimitingInterface[string]

	lock  sync.Mutex
	plans map[string]plan
}

// plan is the latest step of a pod, when it is due, and whether it was taken.
type plan struct {
	uid   types.UID
	step  step
	due   time.Time
	taken bool
}

func runKubelets(arguments []string) int {
	flags := flag.NewFlagSet("kubelets", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "the kubeconfig of the cluster")
	if flags.Parse(arguments) != nil {
		return 2
	}
	client, err := connect(*kubeconfig)
	if err != nil {
		klog.ErrorS(err, "can't use the kubeconfig", "file", *kubeconfig)
		return 1
	}
	newKubelets(client).run(context.Background())
	return 0
}

func connect(kubeconfig string) (rest.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // no limit
	config.ContentType = runtime.ContentTypeProtobuf
	client, err := corev1.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return client.RESTClient(), nil
}

func newKubelets(api rest.Interface) *kubelets {
	byNode := func(object any) ([]string, error) { return []string{object.(*v1.Pod).Spec.NodeName}, nil }
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry)
	return &kubelets{
		api:   api,
		pods:  cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{onNode: byNode}),
		nodes: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
		queue: workqueue.NewTypedRateLimitingQueue(limiter),
		plans: map[string]plan{},
	}
}

func (k *kubelets) run(ctx context.Context) {
	for range workers {
		go k.work(ctx)
	}
	go k.follow(ctx, "nodes", &v1.Node{}, k.nodes, fields.Everything())
	k.follow(ctx, "pods", &v1.Pod{}, k.pods, fields.OneTermNotEqualSelector(onNode, ""))
}

// follow keeps store equal to the selected objects of the cluster, and queues the key of each that changes.
func (k *kubelets) follow(
	ctx context.Context, resource string, kind runtime.Object, store cache.Indexer, selected fields.Selector,
) {
	source := cache.NewListWatchFromClient(k.api, resource, metav1.NamespaceAll, selected)
	// Its own limit of waiting is half a minute, which is long after the API server has come back.
	backoff := &wait.Backoff{Duration: firstRetry, Factor: 2, Jitter: 0.5, Steps: 10, Cap: lastRetry}
	options := cache.ReflectorOptions{Name: resource, Backoff: backoff}
	cache.NewReflectorWithOptions(source, kind, watched{store, k.changed}, options).RunWithContext(ctx)
}

// watched is a store that tells of each change.
type watched struct {
	cache.Indexer
	changed func(object any)
}

func (w watched) Add(object any) error {
	defer w.changed(object)
	return w.Indexer.Add(object)
}

func (w watched) Update(object any) error {
	defer w.changed(object)
	return w.Indexer.Update(object)
}

func (w watched) Delete(object any) error {
	defer w.changed(object)
	return w.Indexer.Delete(object)
}

func (w watched) Replace(objects []any, version string) error {
	gone := w.List()
	defer func() {
		for _, object := range append(gone, objects...) {
			w.changed(object)
		}
	}()
	return w.Indexer.Replace(objects, version)
}

// changed queues an object, and with a node its pods, which wait for a node that doesn't exist.
func (k *kubelets) changed(object any) {
	k.add(object)
	if node, ok := object.(*v1.Node); ok {
		pods, _ := k.pods.ByIndex(onNode, node.Name)
		for _, pod := range pods {
			k.add(pod)
		}
	}
}

func (k *kubelets) add(object any) {
	if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
		k.queue.Add(key)
	}
}

func (k *kubelets) work(ctx context.Context) {
	for {
		key, _ := k.queue.Get()
		if err := k.handle(ctx, key); err != nil {
			klog.ErrorS(err, "it is tried again", "object", key)
			k.queue.AddRateLimited(key)
		} else {
			k.queue.Forget(key)
		}
		k.queue.Done(key)
	}
}

// handle takes one object through its next step, if it is time. Only keys of pods have a namespace.
func (k *kubelets) handle(ctx context.Context, key string) error {
	if node, exists, _ := k.nodes.GetByKey(key); exists {
		return k.handleNode(ctx, node.(*v1.Node))
	}
	if pod, exists, _ := k.pods.GetByKey(key); exists {
		return k.handlePod(ctx, key, pod.(*v1.Pod))
	}
	k.lock.Lock()
	defer k.lock.Unlock()
	delete(k.plans, key)
	return nil
}

func (k *kubelets) handleNode(ctx context.Context, node *v1.Node) error {
	conditions := nodeConditions(node, metav1.Now())
	if len(conditions) == 0 {
		return nil
	}
	return k.patch(ctx, "nodes", node, map[string]any{"conditions": conditions})
}

func (k *kubelets) handlePod(ctx context.Context, key string, pod *v1.Pod) error {
	if _, exists, _ := k.nodes.GetByKey(pod.Spec.NodeName); !exists {
		return nil
	}
	now := time.Now()
	step, delay := nextStep(pod, now)
	if step == nothing {
		return nil
	}
	k.lock.Lock()
	latest := k.plans[key]
	if latest.uid != pod.UID || latest.step != step {
		latest = plan{uid: pod.UID, step: step, due: now.Add(delay)}
		k.plans[key] = latest
	}
	k.lock.Unlock()
	if latest.taken {
		return nil
	}
	if wait := latest.due.Sub(now); wait > 0 {
		k.queue.AddAfter(key, wait)
		return nil
	}
	if err := k.take(ctx, pod, step); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	latest.taken = true
	k.lock.Lock()
	k.plans[key] = latest
	k.lock.Unlock()
	return nil
}

func (k *kubelets) take(ctx context.Context, pod *v1.Pod, step step) error {
	if step != leave {
		return k.patch(ctx, "pods", pod, podStatus(pod, step, metav1.Now()))
	}
	options := metav1.NewDeleteOptions(0)
	options.Preconditions = metav1.NewUIDPreconditions(string(pod.UID))
	return k.api.Delete().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).Body(options).Do(ctx).Error()
}

// patch writes a status as kubelets do: merged with what others wrote, and only to the object of this UID.
func (k *kubelets) patch(ctx context.Context, resource string, object metav1.Object, status any) error {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": object.GetUID()},
		"status":   status,
	})
	if err != nil {
		return err
	}
	request := k.api.Patch(types.StrategicMergePatchType).Resource(resource).Name(object.GetName())
	return request.NamespaceIfScoped(object.GetNamespace(), object.GetNamespace() != "").
		SubResource("status").Body(body).Do(ctx).Error()
}
