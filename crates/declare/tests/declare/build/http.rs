//! Job files that read and write over HTTP.

use super::Stand;
use serde_json::{Value as Json, json};
use tidemill_testkit::{HttpService, Reply};

tidemill_store::on_both![what_is_read_from_one_service_is_sent_to_another];

async fn what_is_read_from_one_service_is_sent_to_another(scratch: tidemill_store::scratch::Scratch) {
    let stand = Stand::on(scratch).await;
    let service = HttpService::start(|request, _| match request.method.as_str() {
        "PUT" => Reply::new(204, ""),
        _ if request.query("page") == Some("3") => Reply::new(200, "[]"),
        _ => {
            Reply::new(200, json!([{ "id": 1, "who": request.target }, { "id": 2, "who": null }]).to_string())
        }
    })
    .unwrap();
    stand.write("secret", "sesame\n");
    let job = format!(
        "job: pass-on
parameters:
  shop: {{ type: string, required: true }}
steps:
  - name: pass
    chunk: 3
    read:
      http:
        url: \"{}?shop=${{shop}}\"
        page: {{ number: page }}
        headers: {{ X-Shop: \"${{shop}}\", X-Api-Key: \"file:@/secret\" }}
        rate: 100/s
    process: {{ map: {{ id: row.id, who: row.who }} }}
    write: {{ http: {{ url: \"{}\", method: PUT, batch: chunk, idempotency_header: X-Once }} }}
",
        service.url("/a"),
        service.url("/b"),
    );

    // It looks like a reference and like more than one parameter, and is neither.
    let ran = stand.run(&job, &["shop=env:HOME&page=9"]).await;

    assert!(ran.is_completed(), "{:?}", ran.end);
    let received = service.received();
    let (read, sent): (Vec<_>, Vec<_>) = received.iter().partition(|request| request.method == "GET");
    let targets: Vec<&str> = read.iter().map(|request| request.target.as_str()).collect();
    let page = |number: u32| format!("/a?shop=env%3AHOME%26page%3D9&page={number}");
    assert_eq!(targets, [page(1), page(2), page(3)]);
    for request in read {
        assert_eq!(request.header("x-shop"), Some("env:HOME&page=9"));
        assert_eq!(request.header("x-api-key"), Some("sesame"));
    }
    let bodies: Vec<Json> = sent.iter().map(|request| serde_json::from_str(&request.body).unwrap()).collect();
    assert_eq!(bodies.iter().map(|body| body.as_array().unwrap().len()).collect::<Vec<_>>(), [3, 1]);
    assert_eq!(bodies[1], json!([{ "id": 2, "who": null }]));
    assert!(sent[0].header("x-once").is_some() && sent[0].header("x-once") != sent[1].header("x-once"));
}

#[test]
fn a_launch_cannot_choose_another_path_of_the_service() {
    let job = "job: j\nparameters: { id: { type: string, default: ../admin } }\nsteps:\n  - name: s\n    chunk: 1\n    \
               read: { http: { url: \"https://h/orders/${id}\" } }\n    write: { jsonl: { path: b } }\n";

    let problems = tidemill_declare::read("job.yaml", job).map(drop).unwrap_err().to_string();

    assert!(problems.contains("the default of id is not accepted"), "{problems}");
    let good = job.replace("../admin", "7");
    assert!(tidemill_declare::read("job.yaml", &good).is_ok());
}
