//! The connections of a wire: each a client and a server, and what is between two messages.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, BufReader},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::watch,
    task::yield_now,
};
use tokio_util::task::TaskTracker;

use super::{
    message::{Message, Startup},
    plan::{Act, Plan},
};

pub(super) type Plans = Arc<watch::Sender<Plan>>;

/// Accepts clients until the wire aborts it.
pub(super) async fn listen(
    listener: TcpListener,
    target: SocketAddr,
    plans: Plans,
    connections: TaskTracker,
) {
    loop {
        match listener.accept().await {
            Ok((client, _)) => drop(connections.spawn(serve(client, target, plans.clone()))),
            Err(_) => yield_now().await,
        }
    }
}

/// Why nothing is passed on any more.
enum End {
    /// One of them closed the connection.
    Left,
    /// The plan says so.
    Cut,
}

/// Carries one connection until it ends; then all that was passed on has taken effect.
async fn serve(mut client: TcpStream, target: SocketAddr, plans: Plans) {
    let Ok(mut server) = TcpStream::connect(target).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    if let Ok(End::Cut) = carry(&mut client, &mut server, &plans).await {
        // The coming drop sends RST instead of FIN.
        let _ = client.set_zero_linger();
    }
    drop(client);
    // An orderly end: the server reads what was passed on before it, and answers nobody.
    let _ = server.shutdown().await;
    let mut unread = vec![0; 16 * 1024];
    while server.read(&mut unread).await.is_ok_and(|count| count > 0) {}
}

async fn carry(client: &mut TcpStream, server: &mut TcpStream, plans: &Plans) -> io::Result<End> {
    loop {
        match Startup::read(client).await? {
            Startup::Tls => client.write_all(b"N").await?,
            Startup::Other(bytes) => break server.write_all(&bytes).await?,
        }
    }
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let backend = AtomicI32::new(0);
    tokio::select! {
        biased;
        end = requests(from_client, to_server, plans, &backend) => end,
        end = answers(from_server, to_client, plans, &backend) => end,
    }
}

async fn requests(
    from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    plans: &Plans,
    backend: &AtomicI32,
) -> io::Result<End> {
    let mut from = BufReader::new(from);
    while let Some(message) = Message::read(&mut from).await? {
        let mut act = Act::Pass;
        let backend = backend.load(Ordering::SeqCst);
        plans.send_modify(|plan| act = plan.request(&message, backend));
        match act {
            Act::Pass => to.write_all(message.bytes()).await?,
            Act::Replace(refused) => to.write_all(refused.bytes()).await?,
            Act::CutBefore => return Ok(End::Cut),
            Act::CutAfter => {
                to.write_all(message.bytes()).await?;
                return Ok(End::Cut);
            }
            Act::Hold => {
                let let_go = plans.subscribe().wait_for(|plan| !plan.holds()).await.is_ok();
                debug_assert!(let_go, "the plans are as old as the wire");
                to.write_all(message.bytes()).await?;
            }
        }
    }
    Ok(End::Left)
}

async fn answers(
    from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    plans: &Plans,
    backend: &AtomicI32,
) -> io::Result<End> {
    let mut from = BufReader::new(from);
    while let Some(message) = Message::read(&mut from).await? {
        if let Some(pid) = message.backend() {
            backend.store(pid, Ordering::SeqCst);
        }
        let mut is_cut = false;
        let backend = backend.load(Ordering::SeqCst);
        plans.send_modify(|plan| is_cut = plan.cuts_answer(&message, backend));
        if is_cut {
            return Ok(End::Cut);
        }
        to.write_all(message.bytes()).await?;
    }
    Ok(End::Left)
}
